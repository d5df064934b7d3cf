// The session of a SessionClient over all its streams. Its own thread opens streams, sends heartbeats and
// handles the ends of streams (session_attempts.cc); gRPC's threads deliver messages (session_core.cc).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "rendezvous/session/agent_end.h"
#include "rendezvous/session/client_stream.h"
#include "rendezvous/session/retry_schedule.h"
#include "rendezvous/session/service_list.h"
#include "rendezvous/session/session_client.h"

namespace mtrun::rendezvous {

class SessionCore final : public ClientStream::Owner, public std::enable_shared_from_this<SessionCore> {
 public:
  SessionCore(SessionOptions options, SessionClient::Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        services_(
            options_.endpoints.empty() ? std::vector<std::string>{options_.endpoint} : options_.endpoints,
            options_.insecure, options_.token) {}

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop();
  void Send(const AgentEvent& event);
  bool Flush(Duration timeout);
  void StampMainLoop() { stamp_ = MonotonicNow().time_since_epoch().count(); }
  void SetNote(const std::string& note) {
    const MutexLock lock(mu_);
    note_ = note;
  }
  void SetOrdinary(bool ordinary) {
    const MutexLock lock(mu_);
    if (std::exchange(ordinary_, ordinary) == ordinary) return;
    next_heartbeat_ = TimePoint();  // the service decides by it from now on
    changed_.NotifyAll();
  }
  void TryToo(const std::vector<std::string>& endpoints);

  // Called by the stream on gRPC's threads.
  void OnMessage(ClientStream* stream, const wire::ServiceMessage& message) override;
  void OnWritten() override;
  void OnReadsEnded() override;
  void OnDone(const grpc::Status& status) override;

 private:
  /// A call of the handler, made after the mutex is released.
  using Notice = std::function<void()>;

  void Run();
  std::vector<Notice> RunOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunConnected(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunDisconnected(TimePoint now, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TimePoint NextDeadline(TimePoint now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenStream(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeEnd(TimePoint now, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  /// Handles a `refusal` from `where`, OK for none. `proven`: the service has shown the token.
  void JudgeRefused(const std::string& where, const absl::Status& refusal, bool proven,
                    std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(absl::Status status, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellDisconnected(std::string why, Duration silent_for, std::vector<Notice>& notices);
  absl::StatusOr<ServiceEvent> OnMalformed(const wire::ServiceEvent& event, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<ServiceEvent> TakeEvent(const wire::ServiceEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Follow(const Redirect& redirect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  wire::AgentMessage MakeHello() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Duration MainLoopAge() const;
  /// Returns how long a service may be silent, even to heartbeats, before it is tried on a new stream.
  Duration Timeout() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // With takeover=majority others take over from a silent service, so there are others to try.
    const size_t others = end_.welcomed() && options_.job.takeover_majority ? 1 : 0;
    return retry_.Timeout(end_.welcomed(), services_.size() + others, options_.job.LostAfter());
  }

  // Constant after construction.
  const SessionOptions options_;
  const SessionClient::Handler handler_;
  const uint64_t session_id_ = RandomBits();
  std::thread thread_;

  std::atomic<int64_t> stamp_{0};  // last turn of the main loop, 0 before the first

  Mutex mu_;
  Condition changed_;
  ServiceList services_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;              // on stream_
  bool reads_ended_ ABSL_GUARDED_BY(mu_) = false;          // on stream_: no more writes are possible
  std::optional<grpc::Status> done_ ABSL_GUARDED_BY(mu_);  // stream_ has ended and is not handled yet
  AgentEnd end_ ABSL_GUARDED_BY(mu_);
  std::string note_ ABSL_GUARDED_BY(mu_);
  bool ordinary_ ABSL_GUARDED_BY(mu_) = false;  // see Heartbeat
  bool hello_due_ ABSL_GUARDED_BY(mu_) = false, heartbeat_due_ ABSL_GUARDED_BY(mu_) = false;
  bool silent_ ABSL_GUARDED_BY(mu_) = false;  // the stream is cancelled because it was silent
  Duration silent_for_ ABSL_GUARDED_BY(mu_) = Duration::zero();  // length of that silence
  std::string tls_doubt_
      ABSL_GUARDED_BY(mu_);  // endpoint that may expect TLS, to be tested without the mutex
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::string redirected_
      ABSL_GUARDED_BY(mu_);                 // why the stream is being closed in favour of another service
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // no more attempts: the job ended, or we failed for good
  std::string last_error_ ABSL_GUARDED_BY(mu_) = "it does not answer";
  RetrySchedule retry_ ABSL_GUARDED_BY(mu_){options_.connect_report_interval, options_.reconnect_timeout,
                                            options_.job.max_nodes};
  TimePoint next_heartbeat_ ABSL_GUARDED_BY(mu_), last_heard_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::rendezvous
