#include "rendezvous/session/session_client.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "rendezvous/codec.h"
#include "rendezvous/session/agent_end.h"
#include "rendezvous/session/client_stream.h"
#include "rendezvous/session/retry_schedule.h"
#include "rendezvous/session/service_list.h"
#include "rendezvous/status_client.h"
#include "rendezvous/transport.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kTlsProbePatience = std::chrono::seconds(1);
constexpr Duration kAttemptPatience = std::chrono::seconds(1);  // with another service to try next

/// The session over all its streams. Its own thread opens streams, sends heartbeats and judges ends; gRPC's
/// threads bring messages.
class Core final : public ClientStream::Owner, public std::enable_shared_from_this<Core> {
 public:
  Core(SessionOptions options, SessionClient::Handler handler)
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
  bool Flush(Duration patience);
  void StampMainLoop() { stamp_ = MonotonicNow().time_since_epoch().count(); }
  void SetNote(const std::string& note) {
    const MutexLock lock(mu_);
    note_ = note;
  }

  // Called by the stream on gRPC's threads.
  void OnMessage(ClientStream* stream, const wire::ServiceMessage& message) override;
  void OnWritten() override;
  void OnReadsEnded() override;
  void OnDone(const grpc::Status& status) override;

 private:
  /// What to tell the handler once the mutex is free.
  using Notice = std::function<void()>;

  void Run();
  std::vector<Notice> RunOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunConnected(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunDisconnected(TimePoint now, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TimePoint NextDeadline(TimePoint now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenStream(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeEnd(TimePoint now, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(absl::Status status, std::vector<Notice>& notices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellDisconnected(std::string why, std::vector<Notice>& notices);
  std::optional<ServiceEvent> TakeEvent(const wire::ServiceEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Follow(const Redirect& redirect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  wire::AgentMessage MakeHello() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Duration MainLoopAge() const;
  /// A service that says nothing for so long, not even to heartbeats, is tried again on a new stream.
  Duration Patience() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Duration lease = options_.job.heartbeat_interval * options_.job.heartbeats_missed;
    if (services_.size() == 1) return std::max<Duration>(std::chrono::seconds(3), 4 * lease);
    return end_.welcomed() ? std::max<Duration>(kAttemptPatience, 2 * lease) : kAttemptPatience;
  }

  // Constant after construction.
  const SessionOptions options_;
  const SessionClient::Handler handler_;
  const uint64_t session_id_ = RandomBits();
  std::thread thread_;

  std::atomic<int64_t> stamp_{0};  // of the main loop, 0 before the first

  Mutex mu_;
  Condition changed_;
  ServiceList services_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;              // on stream_
  bool reads_ended_ ABSL_GUARDED_BY(mu_) = false;          // of stream_: nothing may be written any more
  std::optional<grpc::Status> done_ ABSL_GUARDED_BY(mu_);  // stream_ has ended and waits to be judged
  AgentEnd end_ ABSL_GUARDED_BY(mu_);
  std::string note_ ABSL_GUARDED_BY(mu_);
  bool hello_due_ ABSL_GUARDED_BY(mu_) = false, heartbeat_due_ ABSL_GUARDED_BY(mu_) = false;
  bool silent_ ABSL_GUARDED_BY(mu_) = false;  // the stream is cancelled because nothing came
  std::string tls_doubt_
      ABSL_GUARDED_BY(mu_);  // a service that may expect TLS; to be found out without the mutex
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::string redirected_
      ABSL_GUARDED_BY(mu_);                 // why the stream is being closed in favour of another service
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // no more attempts: the job ended, or we failed for good
  std::string last_error_ ABSL_GUARDED_BY(mu_) = "it does not answer";
  RetrySchedule retry_ ABSL_GUARDED_BY(mu_){options_.connect_report_interval, options_.reconnect_timeout};
  TimePoint next_heartbeat_ ABSL_GUARDED_BY(mu_), last_heard_ ABSL_GUARDED_BY(mu_);
};

// ---- any thread ----

void Core::Send(const AgentEvent& event) {
  const MutexLock lock(mu_);
  end_.outbox.Add(event);
  Pump();
}

bool Core::Flush(Duration patience) {
  const TimePoint deadline = MonotonicNow() + patience;
  const MutexLock lock(mu_);
  while (!end_.outbox.AllAcknowledged()) {
    const bool hopeless = over_ && !end_.welcomed();
    if (hopeless || !changed_.WaitUntil(mu_, deadline)) break;
  }
  return end_.outbox.AllAcknowledged();
}

void Core::Stop() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    if (stream_) stream_->Cancel();
    changed_.NotifyAll();
  }
  thread_.join();
  const MutexLock lock(mu_);
  while (stream_ && !done_) changed_.Wait(mu_);
  stream_.reset();
  // A callback that is just returning may hold the last reference to this object. The channel must not go
  // with it: the last channel joins gRPC's callback threads, which one of them cannot do (a double free in
  // gRPC 1.51).
  services_.Disconnect();
}

// ---- gRPC's threads ----

void Core::OnMessage(ClientStream* stream, const wire::ServiceMessage& message) {
  bool connected = false;
  std::optional<ServiceEvent> event;
  std::optional<Duration> leased_from;
  {
    const MutexLock lock(mu_);
    if (stopping_ || stream != stream_.get()) return;
    last_heard_ = MonotonicNow();
    if (message.has_welcome()) {
      retry_.Connected();
      end_.OnWelcome(message.welcome().service_id(), message.welcome().resumed(), message.ack());
      connected = true;
    } else if (end_.welcomed()) {
      end_.outbox.Acknowledge(message.ack());
      if (message.has_lease()) leased_from = end_.TakeLease(DecodeLease(message.lease()));
      if (message.has_event()) event = TakeEvent(message.event());
      if (event && std::holds_alternative<Assigned>(*event)) leased_from = end_.FirstLease();
      if (event && std::holds_alternative<Redirect>(*event)) {
        Follow(std::get<Redirect>(*event));
        event.reset();
      }
    }
    Pump();
    changed_.NotifyAll();
  }
  if (leased_from && handler_.leased) handler_.leased(*leased_from);
  if (connected && handler_.connected) handler_.connected();
  if (event && handler_.event) handler_.event(*event);
}

void Core::Follow(const Redirect& redirect) {
  const std::string from = services_.Where();
  if (!services_.MoveTo(redirect.endpoint)) return;
  redirected_ = absl::StrCat("the job is at ", redirect.endpoint, ", not at ", from, ": ", redirect.reason);
  stream_->Cancel();
}

std::optional<ServiceEvent> Core::TakeEvent(const wire::ServiceEvent& wire_event) {
  if (end_.Take(wire_event.sequence()) != StreamReceiver::Arrival::kNew) return std::nullopt;
  absl::StatusOr<ServiceEvent> event = DecodeServiceEvent(wire_event);
  if (!event.ok()) {
    log::Warning("the rendezvous service at ", services_.Where(),
                 " sent a malformed event: ", event.status().message());
    return std::nullopt;
  }
  end_.outbox.Observe(*event);
  over_ = over_ || std::holds_alternative<JobEnded>(*event) || std::holds_alternative<Refused>(*event);
  return *std::move(event);
}

void Core::OnWritten() {
  const MutexLock lock(mu_);
  writing_ = false;
  Pump();
}

void Core::OnReadsEnded() {
  const MutexLock lock(mu_);
  reads_ended_ = true;
}

void Core::OnDone(const grpc::Status& status) {
  const MutexLock lock(mu_);
  done_ = status;
  changed_.NotifyAll();
}

// ---- with the mutex ----

void Core::Pump() {
  if (!stream_ || writing_ || reads_ended_) return;
  wire::AgentMessage message;
  if (hello_due_) {
    hello_due_ = false;
    message = MakeHello();
  } else if (!end_.welcomed()) {
    return;
  } else if (heartbeat_due_) {
    heartbeat_due_ = false;
    *message.mutable_heartbeat() = EncodeHeartbeat({MainLoopAge(), note_, BootNow()});
  } else if (const auto next = end_.outbox.Next()) {
    *message.mutable_event() = EncodeAgentEvent(next->sequence, *next->message);
  } else if (!end_.receiver.acknowledgement_due()) {
    return;
  }
  message.set_ack(end_.receiver.Acknowledge());
  writing_ = true;
  stream_->Write(std::move(message));
}

wire::AgentMessage Core::MakeHello() const {
  HelloData hello;
  hello.node_id = options_.node_id;
  hello.session_id = session_id_;
  hello.service_id = end_.welcomed_by();
  hello.opened = end_.outbox.Opening(options_.job);
  wire::AgentMessage message;
  *message.mutable_hello() = EncodeHello(hello);
  return message;
}

Duration Core::MainLoopAge() const {
  const int64_t stamp = stamp_;
  return stamp == 0 ? Duration::zero() : MonotonicNow().time_since_epoch() - Duration(stamp);
}

// ---- the client's own thread: heartbeats, attempts, reports ----

void Core::Run() {
  mu_.Lock();
  const absl::Status made = services_.Connect();
  over_ = over_ || !made.ok();
  retry_.BeginAway(MonotonicNow());
  mu_.Unlock();
  if (!made.ok() && handler_.failed) handler_.failed(made);
  mu_.Lock();
  while (!stopping_) {
    const std::vector<Notice> notices = RunOnce();
    if (!notices.empty()) {
      mu_.Unlock();
      for (const Notice& notice : notices) notice();
      mu_.Lock();
    } else if (!stopping_ && !done_) {
      changed_.WaitUntil(mu_, NextDeadline(MonotonicNow()));
    }
  }
  mu_.Unlock();
}

std::vector<Core::Notice> Core::RunOnce() {
  const TimePoint now = MonotonicNow();
  std::vector<Notice> notices;
  if (done_) JudgeEnd(now, notices);
  if (const std::string where = std::exchange(tls_doubt_, ""); !where.empty()) {
    mu_.Unlock();
    absl::Status checked = CheckPlainText(where, kTlsProbePatience);
    mu_.Lock();
    if (!checked.ok()) Fail(std::move(checked), notices);
  }
  if (stream_) RunConnected(now);
  if (!end_.welcomed() && !over_) RunDisconnected(now, notices);
  return notices;
}

TimePoint Core::NextDeadline(TimePoint now) const {
  if (end_.welcomed()) return std::min(next_heartbeat_, last_heard_ + Patience());
  if (over_) return now + std::chrono::hours(1);
  const TimePoint next = retry_.NextDeadline(stream_ != nullptr);
  return stream_ ? std::min(next, last_heard_ + Patience()) : next;
}

void Core::RunConnected(TimePoint now) {
  if (end_.welcomed() && now >= next_heartbeat_) {
    heartbeat_due_ = true;
    next_heartbeat_ = now + options_.job.heartbeat_interval;
    Pump();
  }
  if (now >= last_heard_ + Patience()) {
    last_error_ = absl::StrCat("it has said nothing for ", HumanDuration(Patience()));
    silent_ = true;
    last_heard_ = now;
    stream_->Cancel();
  }
}

void Core::RunDisconnected(TimePoint now, std::vector<Notice>& notices) {
  if (retry_.GiveUpDue(now)) {
    if (stream_) stream_->Cancel();
    return Fail(
        absl::UnavailableError(absl::StrCat("cannot reach the rendezvous service at ", services_.All(),
                                            " for ", HumanDuration(retry_.AwayFor(now)), ": ", last_error_)),
        notices);
  }
  if (retry_.TakeReport(now)) {
    TellDisconnected(absl::StrCat("still cannot reach the rendezvous service at ", services_.All(), " (",
                                  last_error_, "); trying again"),
                     notices);
  }
  if (!stream_ && retry_.AttemptDue(now)) OpenStream(now);
}

void Core::OpenStream(TimePoint now) {
  end_.OpenStream();
  writing_ = reads_ended_ = heartbeat_due_ = false;
  hello_due_ = true;
  last_heard_ = next_heartbeat_ = now;
  stream_ = std::make_unique<ClientStream>(shared_from_this());
  stream_->Start(services_.stub());
  Pump();
}

void Core::JudgeEnd(TimePoint now, std::vector<Notice>& notices) {
  const grpc::Status status = *std::exchange(done_, std::nullopt);
  stream_.reset();
  const bool was_welcomed = end_.CloseStream();
  changed_.NotifyAll();
  if (over_) return;
  if (const std::string redirected = std::exchange(redirected_, ""); !redirected.empty()) {
    retry_.BeginAway(now);
    return TellDisconnected(redirected, notices);
  }
  if (std::exchange(silent_, false)) {
    const absl::Status renewed = services_.Renew();
    if (!renewed.ok()) last_error_ = std::string(renewed.message());
  } else if (!status.error_message().empty()) {
    last_error_ = WhyUnreachable(status);
  }
  const std::string where = services_.Where();
  if (was_welcomed) {
    retry_.BeginAway(now);
    TellDisconnected(absl::StrCat("lost the rendezvous service at ", where, " (",
                                  status.ok() ? "it closed the stream" : last_error_, "); trying again"),
                     notices);
  }
  retry_.AttemptFailed(now);
  // One that was there a moment ago may just be restarting.
  if (!was_welcomed) services_.MoveOn();
  absl::Status refusal = JudgeRefusal(where, status, options_.insecure);
  if (!refusal.ok()) return Fail(std::move(refusal), notices);
  if (options_.insecure && !was_welcomed && MayExpectTls(status)) tls_doubt_ = where;
}

void Core::TellDisconnected(std::string why, std::vector<Notice>& notices) {
  if (handler_.disconnected) notices.push_back([this, why = std::move(why)] { handler_.disconnected(why); });
}

void Core::Fail(absl::Status status, std::vector<Notice>& notices) {
  over_ = true;
  if (handler_.failed) notices.push_back([this, status = std::move(status)] { handler_.failed(status); });
}

class GrpcSessionClient final : public SessionClient {
 public:
  GrpcSessionClient(SessionOptions options, Handler handler)
      : core_(std::make_shared<Core>(std::move(options), std::move(handler))) {
    core_->Start();
  }
  ~GrpcSessionClient() override { core_->Stop(); }
  void Send(const AgentEvent& event) override { core_->Send(event); }
  bool Flush(Duration patience) override { return core_->Flush(patience); }
  void StampMainLoop() override { core_->StampMainLoop(); }
  void SetNote(const std::string& note) override { core_->SetNote(note); }

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<SessionClient> SessionClient::Start(SessionOptions options, Handler handler) {
  return std::make_unique<GrpcSessionClient>(std::move(options), std::move(handler));
}

}  // namespace mtrun::rendezvous
