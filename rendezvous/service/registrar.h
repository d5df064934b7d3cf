// The deciding thread's part of the service: sessions of agents on one side, jobs on the other. Every method
// but Later runs on the loop's thread.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/codec.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/eviction.h"
#include "rendezvous/job_table.h"
#include "rendezvous/service/end_calls.h"
#include "rendezvous/service/late_inbox.h"
#include "rendezvous/service/log_calls.h"
#include "rendezvous/service/lookout.h"
#include "rendezvous/service/outgoing.h"
#include "rendezvous/service/server_stream.h"
#include "rendezvous/service/service.h"
#include "rendezvous/service/state_folder.h"
#include "rendezvous/session/service_end.h"

namespace mtrun::rendezvous {

/// What is kept for an agent between two streams, so that nothing is lost or repeated. Deciding thread only.
struct ServiceSession {
  std::string job_id, node_id;
  uint64_t session_id = 0;  // of the agent's process
  ServiceEnd<EncodedEvent> end{RandomBits()};
  size_t kept_bytes = 0;                 // of the events that are not acknowledged
  std::shared_ptr<ServerStream> stream;  // null while it is away
  bool closing = false;
  bool welcome_due = false, resumed = false;
  bool overflowed = false;                // too much is unacknowledged; its end is on the way
  Duration heartbeat = Duration::zero();  // when its newest one was sent, by its own clock; zero: answered

  /// On a new stream; see ServiceEnd.
  void Open(uint64_t welcomed_by, uint64_t acknowledged) {
    std::vector<EncodedEvent> heard;
    resumed = end.Open(welcomed_by, acknowledged, &heard);
    welcome_due = true;
    Forget(heard);
  }
  void Acknowledge(uint64_t sequence) { Forget(end.sender.Acknowledge(sequence)); }
  void Forget(const std::vector<EncodedEvent>& heard) {
    for (const EncodedEvent& event : heard) kept_bytes -= event.size();
  }
};

class Registrar final : public ServerStream::Owner {
 public:
  using SessionPtr = std::shared_ptr<ServiceSession>;
  using StreamPtr = std::shared_ptr<ServerStream>;

  /// What may wait for one agent's acknowledgement; an agent that lets more pile up is dropped.
  static constexpr size_t kMostUnacknowledgedBytes = 64 << 20;
  static constexpr size_t kMostUnacknowledgedEvents = 100'000;
  /// Whom to probe is not asked more often: where thousands of nodes come at once each is an event, and the
  /// answer is about all of them.
  static constexpr Duration kConsiderPause = std::chrono::milliseconds(5);

  Registrar(asio::io_context& loop, uint64_t service_id, const ServiceOptions& options);
  ~Registrar() override;

  void OnOpened(const StreamPtr& stream) override;
  void OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) override;
  void OnWritable(const StreamPtr& stream) override {
    if (stream->session) Pump(*stream->session);
  }
  void OnEnded(const StreamPtr& stream, const std::string& why) override;
  void Later(std::function<void()> hear) override { late_.Add(std::move(hear)); }

  void FillStatus(wire::StatusReply& reply) const;
  /// Another service asked for the status: it has this job, and may be the one to go to.
  void Hear(const std::string& job_id, PeerService peer);
  /// See Service.
  void Learn(const std::string& job_id, const Assignment& last);
  /// It listens at `port`, and has the endpoint for itself: what an earlier service wrote down counts. Before
  /// the loop runs.
  void Begin(int port);
  /// A call from outside (ControlCall::kDrain ...), over a connection from `address`.
  void Control(const std::string& call, const std::string& address, const wire::ControlRequest& request,
               wire::ControlReply& reply);
  /// Asks the agent that runs the rank for its log; `done` is called once, then or later.
  void Logs(const std::string& address, const wire::LogsRequest& request, LogCalls::Done done);
  /// Answers it once all jobs here have ended.
  void AwaitEnd(EndCalls::Call call);
  /// Somebody watches.
  void Watch(wire::WatchReply& reply);
  /// Ids of nodes that have not heard how their job ended, and may yet.
  std::vector<std::string> Untold() const;
  /// Calls `quiet` as soon as every agent that is connected has acknowledged everything.
  void WhenQuiet(std::function<void()> quiet) {
    quiet_ = std::move(quiet);
    logs_.Close();
    ends_.Close();
    CheckQuiet();
  }

 private:
  using SessionKey = std::pair<std::string, std::string>;  // job id, node id
  /// An operator's, that the host of a job never comes back: the job hears it when its members come here.
  struct Word {
    Eviction eviction;
    Requester by;
  };

  void OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged);
  SessionPtr FindOrMakeSession(const HelloData& hello);
  void OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event);
  void OnMalformed(const SessionPtr& session, const absl::Status& status);
  void Step(const std::string& job_id, const Event& event);
  void OnHeartbeat(ServiceSession& session, const Heartbeat& heartbeat);
  /// Of a job, before something happens to it.
  struct Before {
    bool had = false, had_ended = false;
    uint64_t run = 0;                  // its incarnation
    std::optional<JobView> last = {};  // of one whose last nodes may leave it
  };
  Before LookBefore(const std::string& job_id) const;
  /// For those who look later.
  void NoteEnd(const std::string& job_id, const Before& before);
  bool AllEnded() const;
  void CheckEnds();
  void WriteDown(const std::string& job_id, const Before& before);
  void Perform(const std::vector<JobTable::JobEffect>& effects);
  void Send(ServiceSession& session, const ServiceEvent& event);
  void Close(const SessionKey& key);
  void Drop(const StreamPtr& stream, const std::string& why);  // it broke the protocol
  void DropOverflowed(const SessionPtr& session);
  void ArmHelloTimer();
  void EvictHostOf(const ControlQuestion& question, wire::ControlReply& reply);
  void SayWord(const std::string& job_id);
  void ConsiderProbing();
  void ArmProbeTimer(TimePoint due);
  void Probe(const std::vector<ProbeRequest>& wanted);
  void Pump(ServiceSession& session);
  void WriteNext(ServiceSession& session);
  bool Knows(const ServiceSession& session) const;
  /// At the latest then.
  void ArmTimer(std::optional<TimePoint> due);
  void OnTimer();
  void CheckQuiet();

  asio::io_context& loop_;
  const uint64_t service_id_;
  const ServiceOptions options_;
  const TimePoint started_;
  std::string own_endpoint_;  // of a service that stands by
  StateFolder states_;
  JobTable jobs_;
  std::map<SessionKey, SessionPtr> sessions_;
  std::map<std::string, Word> words_;                                             // by job
  std::deque<std::pair<TimePoint, std::weak_ptr<ServerStream>>> awaiting_hello_;  // oldest first
  asio::steady_timer timer_, hello_timer_, probe_timer_;
  LateInbox late_;
  EventEncoder encoder_;
  LogCalls logs_;
  EndCalls ends_;
  Lookout lookout_;
  bool probing_ = false, complained_ = false;
  TimePoint last_probe_, considered_;
  std::optional<TimePoint> probe_armed_for_;
  std::thread prober_;
  std::optional<TimePoint> armed_for_;
  std::function<void()> quiet_;
};

}  // namespace mtrun::rendezvous
