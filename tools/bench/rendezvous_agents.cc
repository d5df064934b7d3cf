// Agents for tools/bench/rendezvous: many in one process, each with its own connection to the real service,
// using the real protocol and running no workers.
//   rendezvous_agents ENDPOINT[,ENDPOINT...] TOKEN_FILE|- FIRST COUNT MIN MAX GRACE_SECONDS
// They connect to the first endpoint; if there are several, the job has that list. Commands are lines on
// standard input, answers are lines with times of CLOCK_MONOTONIC in seconds:
//   go            connect and offer          -> "formed T": all of these agents are in the first generation;
//                 each connects at its time (retry_schedule.h)
//   fail          the first one's worker fails  -> "happened T", then "told T" when the others know it
//   lose          the first one is gone without a word -> the same
//   finish        all finish              -> "happened T", then "told T" when all know that the job has ended
//   count         -> "count SENT RECEIVED BYTES_SENT BYTES_RECEIVED": messages and their bytes, of all agents
// After `fail` and `lose` the agents that are left form the next generation ("formed T").
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/session/retry_schedule.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {
namespace {

void Answer(const char* what) {
  std::printf("%s %.6f\n", what, ToSeconds(MonotonicNow().time_since_epoch()));
  std::fflush(stdout);
}

struct Totals {
  std::atomic<uint64_t> sent{0}, received{0}, bytes_sent{0}, bytes_received{0};
};

/// Counts the agents that have reached a common state, and reports when the last one has.
class Gathering {
 public:
  void Expect(int count) { left_ = count; }
  void Reached(const char* what) {
    if (--left_ == 0) Answer(what);
  }

 private:
  std::atomic<int> left_{0};
};

class Agent;

/// Schedules the agents' connects. Thread-safe.
class Starts {
 public:
  void Add(TimePoint when, Agent* agent) {
    const MutexLock lock(mu_);
    due_.emplace(when, agent);
    changed_.NotifyAll();
  }
  /// Returns the next agent when it is due.
  Agent* Next() {
    const MutexLock lock(mu_);
    while (due_.empty() || due_.begin()->first > MonotonicNow()) {
      if (due_.empty()) {
        changed_.Wait(mu_);
      } else {
        changed_.WaitUntil(mu_, due_.begin()->first);
      }
    }
    return due_.extract(due_.begin()).mapped();
  }

 private:
  Mutex mu_;
  Condition changed_;
  std::multimap<TimePoint, Agent*> due_ ABSL_GUARDED_BY(mu_);
};

struct Shared {
  JobSettings settings;
  Totals totals;
  Gathering formed, told;
  Starts starts;
};

class Agent final : public grpc::ClientBidiReactor<wire::AgentMessage, wire::ServiceMessage> {
 public:
  Agent(Shared& shared, int number, std::shared_ptr<grpc::Channel> channel)
      : shared_(shared),
        number_(number),
        stub_(wire::Rendezvous::NewStub(channel)),
        retry_(kNever, Duration::zero(), shared.settings.max_nodes) {}

  /// Schedules a connect; the times are spread like the first connects of a cluster.
  void Begin() {
    retry_.Begin(MonotonicNow(), RandomBits());
    shared_.starts.Add(retry_.NextDeadline(false), this);
  }
  void Go() {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      queue_.clear();
      writing_ = closing_ = false;
      context_ = std::make_unique<grpc::ClientContext>();
    }
    context_->set_wait_for_ready(true);  // a loaded machine can be slow to accept a thousand connections
    stub_->async()->Session(context_.get(), this);
    AddHold();
    HelloData hello;
    hello.node_id = Name();
    hello.session_id = static_cast<uint64_t>(number_) + 1;
    hello.attempt = ++attempt_;
    hello.opened.settings = shared_.settings;
    wire::AgentMessage message;
    *message.mutable_hello() = EncodeHello(hello);
    Write(std::move(message));
    StartRead(&in_);
    StartCall();
  }
  void Fail() {
    WorkerFailure failure;
    failure.host = Host();
    failure.rank = number_;
    failure.pid = 1;
    failure.signal = 9;
    Say(WorkerFailed{generation_, failure});
  }
  void Finish() { Say(WorkersFinished{generation_}); }
  /// Disconnects like a killed process.
  void Vanish() {
    gone_ = true;
    context_->TryCancel();
  }
  void Beat() {
    const std::lock_guard<std::mutex> lock(mu_);
    if (gone_ || !welcomed_) return;
    wire::AgentMessage message;
    Heartbeat heartbeat;
    heartbeat.sent = BootNow();
    *message.mutable_heartbeat() = EncodeHeartbeat(heartbeat);
    Queue(std::move(message));
  }

 private:
  // The host name that mtrun sends (launcher/rendezvous_access.cc), because it affects how well a membership
  // can be packed.
  std::string Host() const { return absl::StrFormat("node%05d", number_); }
  uint64_t Random() const { return SplitMix64(static_cast<uint64_t>(number_)); }
  int Port() const { return 32768 + static_cast<int>(Random() % 28232); }
  std::string Name() const {
    return absl::StrFormat("%s-%d-%08x", Host(), 1000 + Random() % 60000, Random() >> 32);
  }

  void SayOffer() {
    Offer offer;
    offer.node_id = Name();
    offer.host = Host();
    offer.address = absl::StrCat("10.0.", number_ / 256, ".", number_ % 256);
    offer.master_port = offer.presence_port = Port();
    offer.presence_id = SplitMix64(Random());
    offer.service_port = Port() ^ 1;
    Say(OfferSent{offer});
  }
  void Say(AgentEvent event) {
    const std::lock_guard<std::mutex> lock(mu_);
    if (auto* offer = std::get_if<OfferSent>(&event)) offer->seen = generation_;
    wire::AgentMessage message;
    *message.mutable_event() = EncodeAgentEvent(next_sequence_++, AgentSaid{std::move(event), {}});
    Queue(std::move(message));
  }
  void Write(wire::AgentMessage message) {
    const std::lock_guard<std::mutex> lock(mu_);
    Queue(std::move(message));
  }
  void Queue(wire::AgentMessage message) {
    queue_.push_back(std::move(message));
    Pump();
  }
  void Pump() {
    if (writing_ || queue_.empty() || closing_) return;
    out_ = std::move(queue_.front());
    queue_.pop_front();
    out_.set_ack(received_);
    ++shared_.totals.sent;
    shared_.totals.bytes_sent += out_.ByteSizeLong();
    writing_ = true;
    StartWrite(&out_);
  }
  void OnWriteDone(bool) override {
    const std::lock_guard<std::mutex> lock(mu_);
    writing_ = false;
    Pump();
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      const std::lock_guard<std::mutex> lock(mu_);
      closing_ = true;
      RemoveHold();
      return;
    }
    ++shared_.totals.received;
    shared_.totals.bytes_received += in_.ByteSizeLong();
    if (in_.has_welcome()) {
      {
        const std::lock_guard<std::mutex> lock(mu_);
        welcomed_ = true;
      }
      SayOffer();
    } else if (in_.has_event()) {
      Take(in_.event());
    }
    in_.Clear();  // a real machine keeps one agent's membership, not thousands
    StartRead(&in_);
  }
  /// Parses only the first field of an assignment: this machine need not read a thousand members a thousand
  /// times.
  static Generation GenerationIn(const std::string& assignment) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(assignment.data()),
                                              static_cast<int>(assignment.size()));
    uint32_t size = 0;
    std::string bytes;
    wire::Generation generation;
    const bool good = in.ReadTag() == (wire::Assignment::kGenerationFieldNumber << 3 | 2) &&
                      in.ReadVarint32(&size) && in.ReadString(&bytes, static_cast<int>(size)) &&
                      generation.ParseFromString(bytes);
    MT_CHECK(good) << assignment.size();
    return {generation.number(), generation.id()};
  }
  void Take(const wire::ServiceEvent& wire_event) {
    received_ = wire_event.sequence();
    if (wire_event.has_assigned()) {
      generation_ = GenerationIn(wire_event.assigned());
      shared_.formed.Reached("formed");
    } else if (wire_event.has_dissolved()) {
      shared_.told.Reached("told");
      SayOffer();
    } else if (wire_event.has_ended()) {
      shared_.told.Reached("told");
      gone_ = true;  // the service ends its stream
      Say(Leaving{"the job has ended"});
    } else if (wire_event.has_refused()) {
      std::fprintf(stderr, "%s is refused: %s\n", Name().c_str(),
                   wire_event.refused().ShortDebugString().c_str());
    }
  }
  void OnDone(const grpc::Status& status) override {
    if (gone_) return;
    // Rejected before its welcome: the service had too many unauthenticated connections.
    if (!HasBeenWelcomed() && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      retry_.AttemptFailed(MonotonicNow());
      return shared_.starts.Add(retry_.NextDeadline(false), this);
    }
    std::fprintf(stderr, "%s lost its stream: %s\n", Name().c_str(), status.error_message().c_str());
  }

  bool HasBeenWelcomed() {
    const std::lock_guard<std::mutex> lock(mu_);
    return welcomed_;
  }

  static constexpr Duration kNever = std::chrono::hours(1000);
  Shared& shared_;
  const int number_;
  const std::unique_ptr<wire::Rendezvous::Stub> stub_;
  RetrySchedule retry_;  // used by one thread at a time: the one that starts, then the one that sees the end
  uint64_t attempt_ = 0;
  std::unique_ptr<grpc::ClientContext> context_;
  wire::ServiceMessage in_;
  Generation generation_;  // gRPC's thread of this stream, and the main thread between its events
  std::atomic<uint64_t> received_{0};
  std::atomic<bool> gone_{false};

  std::mutex mu_;  // guards all members below
  wire::AgentMessage out_;
  std::deque<wire::AgentMessage> queue_;
  uint64_t next_sequence_ = 1;
  bool writing_ = false, welcomed_ = false, closing_ = false;
};

/// Sends heartbeats for ever, spread over the interval like those of independent machines.
[[noreturn]] void BeatAll(Duration interval, const std::vector<std::unique_ptr<Agent>>& agents) {
  for (TimePoint begin = MonotonicNow();; begin += interval) {
    for (size_t i = 0; i < agents.size(); ++i) {
      std::this_thread::sleep_until(begin + interval * (i + 1) / agents.size());
      agents[i]->Beat();
    }
  }
}

[[noreturn]] void Serve(Shared& shared, std::vector<std::unique_ptr<Agent>>& agents) {
  const int count = static_cast<int>(agents.size());
  int left = count;
  std::thread starts([&] {
    while (true) shared.starts.Next()->Go();
  });
  std::thread beats([&] { BeatAll(shared.settings.heartbeat_interval, agents); });
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "go") {
      shared.formed.Expect(count);
      for (const auto& agent : agents) agent->Begin();
    } else if (command == "watch") {  // an agent of another process will fail or be lost
      shared.told.Expect(left);
      shared.formed.Expect(left);
      Answer("watching");
    } else if (command == "fail") {
      shared.told.Expect(left);
      shared.formed.Expect(left);
      Answer("happened");
      agents.front()->Fail();
    } else if (command == "lose") {
      --left;
      shared.told.Expect(left);
      shared.formed.Expect(left);
      Answer("happened");
      agents.front()->Vanish();
    } else if (command == "finish") {  // "watch" came first
      Answer("happened");
      for (const auto& agent : agents) agent->Finish();
    } else if (command == "count") {
      const Totals& t = shared.totals;
      std::printf("count %llu %llu %llu %llu\n", static_cast<unsigned long long>(t.sent),
                  static_cast<unsigned long long>(t.received), static_cast<unsigned long long>(t.bytes_sent),
                  static_cast<unsigned long long>(t.bytes_received));
      std::fflush(stdout);
    }
  }
  // Like a power failure: a thousand goodbyes would distort the measurement.
  std::_Exit(0);
}

int Run(const std::vector<std::string>& args) {
  if (args.size() != 7) {
    std::fprintf(
        stderr,
        "usage: rendezvous_agents ENDPOINT[,ENDPOINT...] TOKEN_FILE|- FIRST COUNT MIN MAX GRACE_SECONDS\n");
    return 2;
  }
  const bool insecure = args[1] == "-";
  std::string token;
  if (!insecure) {
    const absl::StatusOr<std::string> loaded = LoadToken({.file = args[1]}, MissingToken::kRefuse);
    if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str()), 1;
    token = *loaded;
  }
  Shared shared;
  const std::vector<std::string> endpoints = absl::StrSplit(args[0], ',');
  if (endpoints.size() > 1) shared.settings.endpoints = endpoints;
  shared.settings.job_id = "bench";
  shared.settings.min_nodes = std::stoi(args[4]);
  shared.settings.max_nodes = std::stoi(args[5]);
  shared.settings.heartbeat_interval = HeartbeatInterval(shared.settings.max_nodes);
  shared.settings.max_restarts = 1000;
  shared.settings.heartbeats_missed = 200;  // many agents share few cores here, and none reconnects
  shared.settings.reconnect_grace = FromSeconds(std::stod(args[6]));
  std::vector<std::unique_ptr<Agent>> agents;
  const int first = std::stoi(args[2]), count = std::stoi(args[3]);
  for (int i = 0; i < count; ++i) {
    auto channel = MakeChannel(endpoints.front(), insecure, token);
    if (!channel.ok()) return std::fprintf(stderr, "%s\n", channel.status().ToString().c_str()), 1;
    agents.push_back(std::make_unique<Agent>(shared, first + i, *std::move(channel)));
  }
  Answer("ready");
  Serve(shared, agents);
}

}  // namespace
}  // namespace mtrun::rendezvous

int main(int argc, char** argv) {
  return mtrun::rendezvous::Run(std::vector<std::string>(argv + 1, argv + argc));
}
