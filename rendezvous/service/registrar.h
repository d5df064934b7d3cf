// The deciding thread's part of the service: connects the sessions of agents with the jobs. Every method but
// Later runs on the loop's thread.
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
#include "rendezvous/job/eviction.h"
#include "rendezvous/job/job_places.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/service/end_calls.h"
#include "rendezvous/service/heartbeat_queue.h"
#include "rendezvous/service/log_calls.h"
#include "rendezvous/service/outgoing.h"
#include "rendezvous/service/server_stream.h"
#include "rendezvous/service/service.h"
#include "rendezvous/service/state_folder.h"
#include "rendezvous/service/watch_state.h"
#include "rendezvous/session/service_end.h"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {

/// State kept for an agent between two streams, so that nothing is lost or repeated. Deciding thread only.
struct ServiceSession {
  std::string job_id, node_id;
  uint64_t session_id = 0;  // identifies the agent's process
  ServiceEnd<EncodedEvent> end{RandomBits()};
  size_t kept_bytes = 0;                 // size of the unacknowledged events
  std::shared_ptr<ServerStream> stream;  // null while the agent is away
  bool closing = false;
  bool warned = false;  // of a malformed event that was dropped
  bool welcome_due = false, resumed = false;
  bool overflowed = false;                // too much is unacknowledged; the session is about to end
  Duration heartbeat = Duration::zero();  // sending time of its newest one, by its own clock; zero: answered

  /// Handles a new stream; see ServiceEnd.
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

  /// Limit for the unacknowledged bytes of one agent; an agent that exceeds it is dropped.
  static constexpr size_t kMaxUnacknowledgedBytes = 64 << 20;
  static constexpr size_t kMaxUnacknowledgedEvents = 100'000;
  /// Minimum time between two checks of what to probe: thousands of nodes may come at once, each is an event,
  /// and one check covers all of them.
  static constexpr Duration kConsiderPause = std::chrono::milliseconds(5);

  Registrar(asio::io_context& loop, uint64_t service_id, const ServiceOptions& options);
  ~Registrar() override;

  void OnOpened(const StreamPtr& stream) override;
  void OnMessage(const StreamPtr& stream, const wire::AgentMessage& message) override;
  void OnWritable(const StreamPtr& stream) override {
    if (stream->session) Pump(*stream->session);
  }
  void OnEnded(const StreamPtr& stream, const NodeLost& why) override;
  void Later(std::function<void()> hear) override { heartbeats_.Add(std::move(hear)); }

  void FillStatus(wire::StatusReply& reply) const;
  /// Takes the state of another service that asked for the status: it has this job, and may be its successor.
  void OnPeerStatus(const std::string& job_id, PeerService peer);
  /// See Service.
  void AdoptMembership(const std::string& job_id, const Assignment& last);
  /// Notes that the service listens at `port` and has the endpoint to itself: the records of an earlier
  /// service count. Call before the loop runs.
  void Begin(int port);
  /// Handles a request of this kind from outside, over a connection from `address`.
  void Control(const ControlKind& what, const std::string& address, const wire::ControlRequest& request,
               wire::ControlReply& reply);
  /// Asks the agent that runs the rank for its log; `done` is called once, now or later. If the job is
  /// elsewhere, `reply` names the place before.
  void Logs(const std::string& address, const wire::LogsRequest& request, wire::LogsReply& reply,
            LogCalls::Done done);
  /// Answers the call after all jobs here have ended.
  void AwaitEnd(EndCalls::Call call);
  /// Answers a client that watches.
  void Watch(wire::WatchReply& reply);
  /// Returns the ids of nodes that have not learned how their job ended, and still may.
  std::vector<std::string> NodesWithoutOutcome() const { return jobs_.InEnded(); }
  /// Calls `quiet` as soon as every connected agent has acknowledged everything.
  void WhenQuiet(std::function<void()> quiet) {
    quiet_ = std::move(quiet);
    logs_.Close();
    ends_.Close();
    CheckQuiet();
  }

 private:
  using SessionKey = std::pair<std::string, std::string>;  // job id, node id
  /// An operator's statement that a job's host never comes back; applied when the job's members come here.
  struct PendingEviction {
    Eviction eviction;
    Requester by;
  };

  void OnHello(const StreamPtr& stream, const wire::Hello& message, uint64_t acknowledged);
  SessionPtr FindOrMakeSession(const HelloData& hello);
  void OnEvent(const StreamPtr& stream, const SessionPtr& session, const wire::AgentEvent& event);
  /// Ends the node's session. An event for people alone is dropped instead, with one warning a session.
  void OnMalformed(const SessionPtr& session, const wire::AgentEvent& event, const absl::Status& status);
  void Step(const std::string& job_id, const Event& event);
  void OnHeartbeat(ServiceSession& session, const Heartbeat& heartbeat);
  /// State of a job before an event.
  struct Before {
    bool had = false, had_ended = false;
    uint64_t run = 0;                  // its incarnation
    std::optional<JobView> last = {};  // if its last nodes may leave it with this event
  };
  Before LookBefore(const std::string& job_id) const;
  /// Records the end for clients that ask later.
  void NoteEnd(const std::string& job_id, const Before& before);
  void CheckEnds();
  void WriteDown(const std::string& job_id, const Before& before);
  void Perform(const std::vector<JobTable::JobEffect>& effects);
  void Send(ServiceSession& session, const ServiceEvent& event);
  void Close(const SessionKey& key);
  void Drop(const StreamPtr& stream, const std::string& why);  // the agent broke the protocol
  void DropOverflowed(const SessionPtr& session);
  void ArmHelloTimer();
  void EvictHostOf(const ControlQuestion& question, const std::string& node, wire::ControlReply& reply);
  void SayWord(const std::string& job_id);
  void ConsiderProbing();
  void ArmProbeTimer(TimePoint due);
  void Probe(const std::vector<ProbeRequest>& wanted);
  void Pump(ServiceSession& session);
  void WriteNext(ServiceSession& session);
  /// Arms the timer for `due` at the latest.
  void ArmTimer(std::optional<TimePoint> due);
  void OnTimer();
  void CheckQuiet();

  asio::io_context& loop_;
  const uint64_t service_id_;
  const ServiceOptions options_;
  const TimePoint started_;
  std::string own_endpoint_;  // endpoint of a standby service
  JobPlaces places_;
  StateFolder states_;
  JobTable jobs_;
  std::map<SessionKey, SessionPtr> sessions_;
  std::map<std::string, PendingEviction> pending_evictions_;                      // by job
  std::deque<std::pair<TimePoint, std::weak_ptr<ServerStream>>> awaiting_hello_;  // oldest first
  asio::steady_timer timer_, hello_timer_, probe_timer_;
  HeartbeatQueue heartbeats_;
  EventEncoder encoder_;
  LogCalls logs_;
  EndCalls ends_;
  WatchState watch_state_;
  bool probing_ = false, complained_ = false;
  TimePoint last_probe_, considered_;
  std::optional<TimePoint> probe_armed_for_;
  std::thread prober_;
  std::optional<TimePoint> armed_for_;
  std::function<void()> quiet_;
};

}  // namespace mtrun::rendezvous
