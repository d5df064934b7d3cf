#include "rendezvous/session_client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "rendezvous/codec.h"
#include "rendezvous/outbox.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/retry_schedule.h"
#include "rendezvous/status_client.h"
#include "rendezvous/transport.h"

namespace mtrun::rendezvous {
namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr Duration kTlsProbePatience = std::chrono::seconds(1);
constexpr Duration kAttemptPatience = std::chrono::seconds(1);  // with another service to try next

class Core;

/// One call. gRPC's threads run the callbacks; what the core touches is guarded by the core's mutex.
class ClientStream final : public grpc::ClientBidiReactor<wire::AgentMessage, wire::ServiceMessage> {
 public:
  explicit ClientStream(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  void Start(wire::Rendezvous::Stub& stub) {
    stub.async()->Session(&context, this);
    AddHold();  // writes begin on other threads, so the call may only be done when we say so
    StartRead(&in_);
    StartCall();
  }

  grpc::ClientContext context;
  wire::AgentMessage out;
  bool writing = false;
  bool ended = false;  // no operation may be started any more

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const std::shared_ptr<Core> core_;
  wire::ServiceMessage in_;
};

class Core final : public std::enable_shared_from_this<Core> {
 public:
  Core(SessionOptions options, SessionClient::Handler handler)
      : options_(std::move(options)),
        endpoints_(options_.endpoints.empty() ? std::vector<std::string>{options_.endpoint}
                                              : options_.endpoints),
        handler_(std::move(handler)) {}

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop();
  void Send(const AgentEvent& event);
  bool Flush(Duration patience);
  void StampMainLoop() { stamp_ = MonotonicNow().time_since_epoch().count(); }
  void SetNote(const std::string& note) {
    const std::lock_guard lock(mu_);
    note_ = note;
  }

  // Called by the stream on gRPC's threads.
  void OnMessage(ClientStream* stream, const wire::ServiceMessage& message);
  void OnWritten(ClientStream* stream);
  void OnReadsEnded(ClientStream* stream);
  void OnDone(const grpc::Status& status);

 private:
  using Notice = std::function<void()>;

  void Run();
  void TurnConnected(TimePoint now);
  void TurnDisconnected(TimePoint now, std::vector<Notice>& notices);
  TimePoint NextTurn(TimePoint now) const;
  void OpenStream(TimePoint now);
  absl::Status Prepare(size_t place);
  void RenewConnection();
  void JudgeEnd(TimePoint now, std::vector<Notice>& notices);
  void Fail(absl::Status status, std::vector<Notice>& notices);
  void OnWelcome(const wire::Welcome& welcome, uint64_t acknowledged);
  std::optional<ServiceEvent> TakeEvent(const wire::ServiceEvent& event);
  void Pump();
  wire::AgentMessage MakeHello() const;
  Duration MainLoopAge() const;
  /// A service that says nothing for so long, not even to heartbeats, is tried anew.
  Duration Patience() const {
    const Duration lease = options_.job.heartbeat_interval * options_.job.heartbeats_missed;
    if (endpoints_.size() == 1) return std::max<Duration>(std::chrono::seconds(3), 4 * lease);
    return welcomed_ ? std::max<Duration>(kAttemptPatience, 2 * lease) : kAttemptPatience;
  }
  const std::string& Where() const { return endpoints_[place_]; }
  void MoveOn() { place_ = (place_ + 1) % endpoints_.size(); }
  void Redirect(const Elsewhere& elsewhere);

  // Constant after construction (the stubs after the thread's first turn).
  const SessionOptions options_;
  const std::vector<std::string> endpoints_;
  const SessionClient::Handler handler_;
  const uint64_t session_id_ = RandomBits();
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // as endpoints_, and so
  std::vector<std::unique_ptr<wire::Rendezvous::Stub>> stubs_;

  std::atomic<int64_t> stamp_{0};  // of the main loop, 0 before the first
  std::thread thread_;

  // Guarded by mu_.
  std::mutex mu_;
  std::condition_variable changed_;
  std::unique_ptr<ClientStream> stream_;
  std::optional<grpc::Status> done_;  // stream_ has ended and waits to be judged
  Outbox outbox_;
  std::string note_;
  uint64_t received_ = 0;
  uint64_t service_id_ = 0;
  bool hello_due_ = false, welcomed_ = false, heartbeat_due_ = false, acknowledgement_due_ = false;
  bool silent_ = false;     // the stream is cancelled because nothing came
  bool tls_doubt_ = false;  // the service may expect TLS; to be found out without the lock
  bool stopping_ = false;
  size_t place_ = 0;        // in endpoints_: of the stream, or of the next attempt
  std::string redirected_;  // why the stream is being closed in favour of another service
  bool over_ = false;       // no more attempts: the job ended, or we failed for good
  std::string last_error_ = "it does not answer";
  RetrySchedule retry_{options_.connect_report_interval, options_.reconnect_timeout};
  TimePoint next_heartbeat_, last_heard_;
};

void ClientStream::OnReadDone(bool ok) {
  if (!ok) {
    core_->OnReadsEnded(this);
    RemoveHold();
    return;
  }
  core_->OnMessage(this, in_);
  StartRead(&in_);
}

void ClientStream::OnWriteDone(bool) { core_->OnWritten(this); }

void ClientStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<Core> core = core_;  // the stream may be gone before OnDone returns
  core->OnDone(status);
}

// ---- any thread ----

void Core::Send(const AgentEvent& event) {
  const Lock lock(mu_);
  outbox_.Add(event);
  Pump();
}

bool Core::Flush(Duration patience) {
  Lock lock(mu_);
  const auto hopeless = [&] { return over_ && !welcomed_; };
  changed_.wait_for(lock, patience, [&] { return outbox_.AllAcknowledged() || hopeless(); });
  return outbox_.AllAcknowledged();
}

void Core::Stop() {
  {
    const Lock lock(mu_);
    stopping_ = true;
    if (stream_) stream_->context.TryCancel();
    changed_.notify_all();
  }
  thread_.join();
  Lock lock(mu_);
  changed_.wait(lock, [&] { return !stream_ || done_; });
  stream_.reset();
  // A callback that is just returning may hold the last reference to this object. The channel must not go
  // with it: the last channel joins gRPC's callback threads, which one of them cannot do (a double free in
  // gRPC 1.51).
  stubs_.clear();
  channels_.clear();
}

// ---- gRPC's threads ----

void Core::OnMessage(ClientStream* stream, const wire::ServiceMessage& message) {
  bool connected = false;
  std::optional<ServiceEvent> event;
  {
    const Lock lock(mu_);
    if (stopping_ || stream != stream_.get()) return;
    last_heard_ = MonotonicNow();
    if (message.has_welcome()) {
      OnWelcome(message.welcome(), message.ack());
      connected = true;
    } else if (welcomed_) {
      outbox_.Acknowledge(message.ack());
      if (message.has_event()) event = TakeEvent(message.event());
      if (event && std::holds_alternative<Elsewhere>(*event)) {
        Redirect(std::get<Elsewhere>(*event));
        event.reset();
      }
    }
    Pump();
    changed_.notify_all();
  }
  if (connected && handler_.connected) handler_.connected();
  if (event && handler_.event) handler_.event(*event);
}

void Core::OnWelcome(const wire::Welcome& welcome, uint64_t acknowledged) {
  welcomed_ = true;
  service_id_ = welcome.service_id();
  retry_.Connected();
  if (welcome.resumed()) {
    outbox_.Acknowledge(acknowledged);
    outbox_.Resume();
  } else {
    outbox_.BeginAnew();
    received_ = 0;
  }
}

void Core::Redirect(const Elsewhere& elsewhere) {
  const auto found = std::find(endpoints_.begin(), endpoints_.end(), elsewhere.endpoint);
  if (found == endpoints_.end()) return;
  redirected_ =
      absl::StrCat("the job is at ", elsewhere.endpoint, ", not at ", Where(), ": ", elsewhere.reason);
  place_ = static_cast<size_t>(found - endpoints_.begin());
  stream_->context.TryCancel();
}

std::optional<ServiceEvent> Core::TakeEvent(const wire::ServiceEvent& wire_event) {
  acknowledgement_due_ = true;
  if (wire_event.sequence() != received_ + 1) return std::nullopt;  // a repeated one
  received_ = wire_event.sequence();
  absl::StatusOr<ServiceEvent> event = DecodeServiceEvent(wire_event);
  if (!event.ok()) {
    log::Warning("the rendezvous service at ", Where(),
                 " sent a malformed event: ", event.status().message());
    return std::nullopt;
  }
  outbox_.Observe(*event);
  over_ = over_ || std::holds_alternative<JobEnded>(*event) || std::holds_alternative<Refused>(*event);
  return *std::move(event);
}

void Core::OnWritten(ClientStream* stream) {
  const Lock lock(mu_);
  stream->writing = false;
  Pump();
}

void Core::OnReadsEnded(ClientStream* stream) {
  const Lock lock(mu_);
  stream->ended = true;
}

void Core::OnDone(const grpc::Status& status) {
  const Lock lock(mu_);
  done_ = status;
  changed_.notify_all();
}

// ---- under mu_ ----

void Core::Pump() {
  if (!stream_ || stream_->writing || stream_->ended) return;
  wire::AgentMessage message;
  message.set_ack(received_);
  if (hello_due_) {
    hello_due_ = false;
    message = MakeHello();
  } else if (!welcomed_) {
    return;
  } else if (heartbeat_due_) {
    heartbeat_due_ = false;
    *message.mutable_heartbeat() = EncodeHeartbeat({MainLoopAge(), note_});
  } else if (const Outbox::Entry* entry = outbox_.Next(); entry != nullptr) {
    *message.mutable_event() = EncodeAgentEvent(entry->sequence, entry->said);
  } else if (!acknowledgement_due_) {
    return;
  }
  acknowledgement_due_ = false;
  stream_->out = std::move(message);
  stream_->writing = true;
  stream_->StartWrite(&stream_->out);
}

wire::AgentMessage Core::MakeHello() const {
  HelloData hello;
  hello.node_id = options_.node_id;
  hello.session_id = session_id_;
  hello.service_id = service_id_;
  hello.opened = StreamOpened{options_.job, outbox_.seen(), outbox_.seen_restarts(), outbox_.seen_refunds()};
  wire::AgentMessage message;
  message.set_ack(received_);
  *message.mutable_hello() = EncodeHello(hello);
  return message;
}

Duration Core::MainLoopAge() const {
  const int64_t stamp = stamp_;
  return stamp == 0 ? Duration::zero() : MonotonicNow().time_since_epoch() - Duration(stamp);
}

// ---- the client's own thread: heartbeats, attempts, reports ----

void Core::Run() {
  absl::Status made;
  channels_.resize(endpoints_.size());
  stubs_.resize(endpoints_.size());
  for (size_t place = 0; place < endpoints_.size(); ++place) made.Update(Prepare(place));
  if (!made.ok() && handler_.failed) handler_.failed(made);
  Lock lock(mu_);
  over_ = over_ || !made.ok();
  retry_.BeginAway(MonotonicNow());
  while (!stopping_) {
    const TimePoint now = MonotonicNow();
    std::vector<Notice> notices;
    if (done_) JudgeEnd(now, notices);
    if (std::exchange(tls_doubt_, false)) {
      lock.unlock();
      absl::Status checked = CheckPlainText(Where(), kTlsProbePatience);
      lock.lock();
      if (!checked.ok()) Fail(std::move(checked), notices);
    }
    if (stream_) TurnConnected(now);
    if (!welcomed_ && !over_) TurnDisconnected(now, notices);
    if (!notices.empty()) {
      lock.unlock();
      for (const Notice& notice : notices) notice();
      lock.lock();
      continue;
    }
    if (stopping_ || done_) continue;
    changed_.wait_until(lock, NextTurn(now));
  }
}

TimePoint Core::NextTurn(TimePoint now) const {
  if (welcomed_) return std::min(next_heartbeat_, last_heard_ + Patience());
  if (over_) return now + std::chrono::hours(1);
  const TimePoint next = retry_.NextTurn(stream_ != nullptr);
  return stream_ ? std::min(next, last_heard_ + Patience()) : next;
}

void Core::TurnConnected(TimePoint now) {
  if (welcomed_ && now >= next_heartbeat_) {
    heartbeat_due_ = true;
    next_heartbeat_ = now + options_.job.heartbeat_interval;
    Pump();
  }
  if (now >= last_heard_ + Patience()) {
    last_error_ = absl::StrCat("it has said nothing for ", HumanDuration(Patience()));
    silent_ = true;
    last_heard_ = now;
    stream_->context.TryCancel();
  }
}

void Core::TurnDisconnected(TimePoint now, std::vector<Notice>& notices) {
  if (retry_.GiveUpDue(now)) {
    if (stream_) stream_->context.TryCancel();
    return Fail(absl::UnavailableError(absl::StrCat("cannot reach the rendezvous service at ",
                                                    absl::StrJoin(endpoints_, " or "), " for ",
                                                    HumanDuration(retry_.AwayFor(now)), ": ", last_error_)),
                notices);
  }
  if (retry_.TakeReport(now)) {
    const std::string why =
        absl::StrCat("still cannot reach the rendezvous service at ", absl::StrJoin(endpoints_, " or "), " (",
                     last_error_, "); trying again");
    if (handler_.disconnected) notices.push_back([this, why] { handler_.disconnected(why); });
  }
  if (!stream_ && retry_.AttemptDue(now)) OpenStream(now);
}

void Core::OpenStream(TimePoint now) {
  stream_ = std::make_unique<ClientStream>(shared_from_this());
  last_heard_ = now;
  next_heartbeat_ = now;
  hello_due_ = true;
  heartbeat_due_ = acknowledgement_due_ = false;
  stream_->Start(*stubs_[place_]);
  Pump();
}

absl::Status Core::Prepare(size_t place) {
  MT_ASSIGN_OR_RETURN(channels_[place], MakeChannel(endpoints_[place], options_.insecure, options_.token));
  stubs_[place] = wire::Rendezvous::NewStub(channels_[place]);
  return absl::OkStatus();
}

/// A connection that is there, and nothing comes on it, may be dead without a word (a cable was out), and TCP
/// tries such a one ever more seldom, for minutes after the cable is back: the next attempt gets a new one.
void Core::RenewConnection() {
  if (channels_[place_]->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) return;
  const absl::Status made = Prepare(place_);
  if (!made.ok()) last_error_ = std::string(made.message());
}

void Core::JudgeEnd(TimePoint now, std::vector<Notice>& notices) {
  const grpc::Status status = *std::exchange(done_, std::nullopt);
  stream_.reset();
  const bool was_welcomed = std::exchange(welcomed_, false);
  changed_.notify_all();
  if (over_) return;
  if (const std::string redirected = std::exchange(redirected_, ""); !redirected.empty()) {
    retry_.BeginAway(now);
    if (handler_.disconnected) notices.push_back([this, redirected] { handler_.disconnected(redirected); });
    return;
  }
  if (std::exchange(silent_, false)) {
    RenewConnection();
  } else if (!status.error_message().empty()) {
    last_error_ = WhyUnreachable(status);
  }
  if (was_welcomed) {
    retry_.BeginAway(now);
    const std::string why =
        absl::StrCat("lost the rendezvous service at ", Where(), " (",
                     status.ok() ? "it closed the stream" : last_error_, "); trying again");
    if (handler_.disconnected) notices.push_back([this, why] { handler_.disconnected(why); });
  }
  retry_.AttemptFailed(now);
  const std::string where = Where();
  // One that was there a moment ago may just be restarting.
  if (!was_welcomed) MoveOn();
  const bool refused = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                       status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
                       status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  if (refused) {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    return Fail(absl::Status(code, absl::StrCat("the rendezvous service at ", where,
                                                " refuses: ", status.error_message())),
                notices);
  }
  absl::Status credentials = JudgeCredentials(where, status, options_.insecure);
  if (!credentials.ok()) Fail(std::move(credentials), notices);
  tls_doubt_ = options_.insecure && !was_welcomed && MayExpectTls(status);
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
