#include "rendezvous/service.h"

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "rendezvous/codec.h"
#include "rendezvous/job_table.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/server_stream.h"
#include "rendezvous/transport.h"

namespace mtrun::rendezvous {

/// What is kept for an agent between two streams, so that nothing is lost or repeated. Deciding thread only.
struct ServiceSession {
  std::string job_id, node_id;
  uint64_t session_id = 0;
  std::shared_ptr<ServerStream> stream;     // null while it is away
  std::deque<wire::ServiceEvent> unacknowledged;
  size_t written = 0;                       // of those, on the current stream
  uint64_t next_sequence = 1;
  uint64_t received = 0;
  bool acknowledgement_due = false, closing = false;
  bool welcome_due = false, resumed = false;

  void Acknowledge(uint64_t sequence) {
    while (!unacknowledged.empty() && unacknowledged.front().sequence() <= sequence) {
      unacknowledged.pop_front();
      if (written > 0) --written;
    }
  }
  void BeginNumbersAnew() {
    received = 0;
    next_sequence = 1;
    for (wire::ServiceEvent& event : unacknowledged) event.set_sequence(next_sequence++);
  }
};

namespace {

using SessionPtr = std::shared_ptr<ServiceSession>;
using StreamPtr = std::shared_ptr<ServerStream>;

/// The deciding thread's part: sessions and jobs. Every method runs on the loop's thread.
class Registrar final : public ServerStream::Owner {
 public:
  Registrar(asio::io_context& loop, uint64_t service_id, Duration recovery_window)
      : loop_(loop),
        service_id_(service_id),
        started_(MonotonicNow()),
        jobs_(JobMachine::Options{RandomBits(), started_, recovery_window}),
        timer_(loop) {}

  void OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) override;
  void OnWritable(const StreamPtr& stream) override {
    if (stream->session) Pump(*stream->session);
  }
  void OnEnded(const StreamPtr& stream, const std::string& why) override;

  void FillStatus(wire::StatusReply& reply) const;
  /// Calls `quiet` as soon as every agent that is connected has acknowledged everything.
  void WhenQuiet(std::function<void()> quiet) {
    quiet_ = std::move(quiet);
    CheckQuiet();
  }

 private:
  using SessionKey = std::pair<std::string, std::string>;  // job id, node id

  void OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged);
  SessionPtr FindOrMakeSession(const HelloData& hello, bool& resumed);
  void OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event);
  void OnMalformed(const SessionPtr& session, const absl::Status& status);
  void Step(const std::string& job_id, const Event& event);
  void Perform(const std::vector<JobTable::JobEffect>& effects);
  void Send(ServiceSession& session, const ServiceEvent& event);
  void Close(const SessionKey& key);
  void Drop(const StreamPtr& stream, const std::string& why);  // it broke the protocol
  void Pump(ServiceSession& session);
  bool Knows(const ServiceSession& session) const;
  void ArmTimer();
  void OnTimer();
  void CheckQuiet();

  asio::io_context& loop_;
  const uint64_t service_id_;
  const TimePoint started_;
  JobTable jobs_;
  std::map<SessionKey, SessionPtr> sessions_;
  asio::steady_timer timer_;
  std::optional<TimePoint> armed_for_;
  std::function<void()> quiet_;
};

void Registrar::OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) {
  const SessionPtr session = stream->session;
  if (message.has_hello()) {
    if (session) return Drop(stream, "a second Hello");
    return OnHello(stream, message.hello(), message.ack());
  }
  if (!session) return stream->Close({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be Hello"});
  session->Acknowledge(message.ack());
  if (message.has_event()) OnEvent(stream, session, message.event());
  if (message.has_heartbeat()) {
    session->acknowledgement_due = true;
    const Duration age(std::max<int64_t>(0, message.heartbeat().main_loop_age_ns()));
    Step(session->job_id, Event{session->node_id, Heartbeat{age}});
  }
  Pump(*session);
  CheckQuiet();
}

void Registrar::OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged) {
  const absl::StatusOr<HelloData> hello = DecodeHello(message);
  if (!hello.ok()) {
    return stream->Close({static_cast<grpc::StatusCode>(hello.status().code()), std::string(hello.status().message())});
  }
  bool resumed = false;
  const SessionPtr session = FindOrMakeSession(*hello, resumed);
  if (session->stream) {  // a half-open connection that this one replaces
    session->stream->session.reset();
    session->stream->Close({grpc::StatusCode::ABORTED, "replaced by a newer stream of the same agent"});
  }
  if (resumed) session->Acknowledge(acknowledged);
  session->stream = stream;
  session->written = 0;
  session->resumed = resumed;
  session->welcome_due = true;
  stream->session = session;
  Step(session->job_id, Event{session->node_id, hello->opened});
  Pump(*session);
}

SessionPtr Registrar::FindOrMakeSession(const HelloData& hello, bool& resumed) {
  const SessionKey key(hello.opened.settings.job_id, hello.node_id);
  if (const auto found = sessions_.find(key); found != sessions_.end()) {
    const SessionPtr session = found->second;
    if (session->session_id == hello.session_id) {
      // Id 0: it never heard our Welcome, so its numbers are still the first ones.
      resumed = hello.service_id == service_id_ || hello.service_id == 0;
      if (!resumed) session->BeginNumbersAnew();
      return session;
    }
    Step(key.first, Event{key.second, AgentSaid{Leaving{"its agent was started again under the same id", false, 0}, {}, {}}});
    Close(key);
  }
  const auto session = std::make_shared<ServiceSession>();
  session->job_id = key.first;
  session->node_id = key.second;
  session->session_id = hello.session_id;
  sessions_[key] = session;
  return session;
}

void Registrar::OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event) {
  session->acknowledgement_due = true;
  if (event.sequence() <= session->received) return;  // came over the old stream already
  if (event.sequence() != session->received + 1) {
    return Drop(stream, absl::StrCat("event ", event.sequence(), " came after ", session->received));
  }
  session->received = event.sequence();
  const absl::StatusOr<AgentSaid> said = DecodeAgentEvent(event);
  if (!said.ok()) return OnMalformed(session, said.status());
  Step(session->job_id, Event{session->node_id, *said});
}

void Registrar::OnMalformed(const SessionPtr& session, const absl::Status& status) {
  const std::string why = absl::StrCat("malformed event: ", status.message());
  log::Warning("rendezvous ", session->job_id, ": ", session->node_id, ": ", why);
  Step(session->job_id, Event{session->node_id, AgentSaid{Leaving{why, false, 0}, {}, {}}});
  Send(*session, Refused{why});
  Close({session->job_id, session->node_id});
}

void Registrar::OnEnded(const StreamPtr& stream, const std::string& why) {
  const SessionPtr session = std::exchange(stream->session, nullptr);
  if (session && session->stream == stream) {
    session->stream.reset();
    if (!session->closing) Step(session->job_id, Event{session->node_id, StreamClosed{why}});
    const auto entry = sessions_.find({session->job_id, session->node_id});
    const bool current = entry != sessions_.end() && entry->second == session;
    if (current && !Knows(*session)) sessions_.erase(entry);  // it had left
  }
  CheckQuiet();
}

void Registrar::Drop(const StreamPtr& stream, const std::string& why) {
  stream->Close({grpc::StatusCode::INVALID_ARGUMENT, why});
  OnEnded(stream, why);
}

bool Registrar::Knows(const ServiceSession& session) const {
  const auto job = jobs_.jobs().find(session.job_id);
  return job != jobs_.jobs().end() && job->second.Has(session.node_id);
}

void Registrar::Step(const std::string& job_id, const Event& event) {
  Perform(jobs_.Step(job_id, event, MonotonicNow()));
  ArmTimer();
}

void Registrar::Perform(const std::vector<JobTable::JobEffect>& effects) {
  for (const auto& [job_id, effect] : effects) {
    if (const auto* line = std::get_if<LogLine>(&effect)) {
      log::Info("rendezvous ", job_id, ": ", line->text);
    } else if (const auto* send = std::get_if<rendezvous::Send>(&effect)) {
      const auto session = sessions_.find({job_id, send->node_id});
      if (session != sessions_.end()) Send(*session->second, send->event);
    } else {
      Close({job_id, std::get<CloseSession>(effect).node_id});
    }
  }
}

void Registrar::Send(ServiceSession& session, const ServiceEvent& event) {
  session.unacknowledged.push_back(EncodeServiceEvent(session.next_sequence++, event));
  Pump(session);
}

void Registrar::Close(const SessionKey& key) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  const SessionPtr session = found->second;
  sessions_.erase(found);
  session->closing = true;
  Pump(*session);
}

void Registrar::Pump(ServiceSession& session) {
  const StreamPtr stream = session.stream;
  if (!stream || !stream->writable()) return;
  wire::ServiceMessage message;
  message.set_ack(session.received);
  if (session.welcome_due) {
    session.welcome_due = false;
    message.mutable_welcome()->set_protocol(kProtocolVersion);
    message.mutable_welcome()->set_service_id(service_id_);
    message.mutable_welcome()->set_resumed(session.resumed);
  } else if (session.written < session.unacknowledged.size()) {
    *message.mutable_event() = session.unacknowledged[session.written++];
  } else if (!session.acknowledgement_due) {
    if (!session.closing) return;
    session.stream.reset();
    stream->session.reset();
    return stream->Close(grpc::Status::OK);
  }
  session.acknowledgement_due = false;
  stream->Write(std::move(message));
}

void Registrar::ArmTimer() {
  const std::optional<TimePoint> due = jobs_.NextDeadline();
  // Heartbeats move deadlines back all the time; a timer that fires early finds nothing due and is armed again.
  if (!due || (armed_for_ && *armed_for_ <= *due)) return;
  armed_for_ = due;
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*due));
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    // Behind everything that has already come in: input is drained before deadlines are judged.
    asio::post(loop_, [this] { OnTimer(); });
  });
}

void Registrar::OnTimer() {
  armed_for_.reset();
  Perform(jobs_.Tick(MonotonicNow()));
  ArmTimer();
}

void Registrar::CheckQuiet() {
  const auto busy = [](const auto& entry) { return entry.second->stream && !entry.second->unacknowledged.empty(); };
  if (quiet_ && std::none_of(sessions_.begin(), sessions_.end(), busy)) std::exchange(quiet_, nullptr)();
}

void Registrar::FillStatus(wire::StatusReply& reply) const {
  const TimePoint now = MonotonicNow();
  reply.set_protocol(kProtocolVersion);
  reply.set_uptime_ns((now - started_).count());
  for (const auto& [job_id, job] : jobs_.jobs()) EncodeJobView(job.View(now), reply.add_jobs());
}

/// gRPC's face: posts to the loop and returns.
class Rpc final : public wire::Rendezvous::CallbackService {
 public:
  Rpc(asio::io_context& loop, Registrar& registrar, uint64_t id) : loop_(loop), registrar_(registrar), id_(id) {}

  grpc::ServerBidiReactor<wire::AgentMessage, wire::ServiceMessage>* Session(grpc::CallbackServerContext*) override {
    return ServerStream::Make(loop_, registrar_);
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest*,
                                   wire::StatusReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    asio::post(loop_, [this, reactor, reply] {
      registrar_.FillStatus(*reply);
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }
  grpc::ServerUnaryReactor* Identify(grpc::CallbackServerContext* context, const wire::IdentifyRequest*,
                                     wire::IdentifyReply* reply) override {
    reply->set_service_id(id_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  asio::io_context& loop_;
  Registrar& registrar_;
  const uint64_t id_;
};

class GrpcService final : public Service {
 public:
  explicit GrpcService(const ServiceOptions& options)
      : options_(options),
        id_(RandomBits()),
        work_(loop_.get_executor()),
        registrar_(loop_, id_, options.recovery_window),
        rpc_(loop_, registrar_, id_) {}

  absl::Status Listen() {
    QuietGrpcLog();
    MT_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options_.insecure, options_.token));
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options_.listen, credentials, &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // otherwise two services share a port without knowing
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.RegisterService(&rpc_);
    thread_ = std::thread([this] { loop_.run(); });
    server_ = builder.BuildAndStart();
    if (server_ && port_ != 0) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", options_.listen, ": the port is in use, or the address is not "
                                                 "one of this machine"));
  }

  ~GrpcService() override {
    if (server_) {
      AwaitQuiet();
      // Cancels every call; their ends are handled on the loop, which therefore still runs.
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
    }
    work_.reset();
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  int port() const override { return port_; }
  uint64_t id() const override { return id_; }

 private:
  void AwaitQuiet() {
    const auto quiet = std::make_shared<std::promise<void>>();
    asio::post(loop_, [this, quiet] { registrar_.WhenQuiet([quiet] { quiet->set_value(); }); });
    quiet->get_future().wait_for(options_.farewell);
  }

  const ServiceOptions options_;
  const uint64_t id_;
  int port_ = 0;
  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Registrar registrar_;
  Rpc rpc_;
  std::thread thread_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Start(const ServiceOptions& options) {
  auto service = std::make_unique<GrpcService>(options);
  MT_RETURN_IF_ERROR(service->Listen());
  return service;
}

}  // namespace mtrun::rendezvous
