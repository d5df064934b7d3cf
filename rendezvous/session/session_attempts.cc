// The thread of a session: heartbeats, attempts to reach a service, reports.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/session/session_core.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kTlsProbePatience = std::chrono::seconds(1);

}  // namespace

void SessionCore::Run() {
  mu_.Lock();
  const absl::Status made = services_.Connect();
  over_ = over_ || !made.ok();
  retry_.Begin(MonotonicNow(), RandomBits());
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

std::vector<SessionCore::Notice> SessionCore::RunOnce() {
  const TimePoint now = MonotonicNow();
  std::vector<Notice> notices;
  if (done_) JudgeEnd(now, notices);
  if (const std::string where = std::exchange(tls_doubt_, ""); !where.empty()) {
    mu_.Unlock();
    const absl::Status checked = CheckPlainText(where, kTlsProbePatience);
    mu_.Lock();
    JudgeRefused(where, checked, /*proven=*/false, notices);
  }
  if (stream_) RunConnected(now);
  if (!end_.welcomed() && !over_) RunDisconnected(now, notices);
  return notices;
}

TimePoint SessionCore::NextDeadline(TimePoint now) const {
  if (end_.welcomed()) return std::min(next_heartbeat_, last_heard_ + Timeout());
  if (over_) return now + std::chrono::hours(1);
  const TimePoint next = retry_.NextDeadline(stream_ != nullptr);
  return stream_ ? std::min(next, last_heard_ + Timeout()) : next;
}

void SessionCore::RunConnected(TimePoint now) {
  if (end_.welcomed() && now >= next_heartbeat_) {
    heartbeat_due_ = true;
    next_heartbeat_ = now + options_.job.heartbeat_interval;
    Pump();
  }
  if (now >= last_heard_ + Timeout()) {
    last_error_ = absl::StrCat("it has sent nothing for ", HumanDuration(Timeout()));
    silent_ = true;
    silent_for_ = now - last_heard_;
    last_heard_ = now;
    stream_->Cancel();
  }
}

void SessionCore::RunDisconnected(TimePoint now, std::vector<Notice>& notices) {
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
                     Duration::zero(), notices);
  }
  if (!stream_ && retry_.AttemptDue(now)) OpenStream(now);
}

void SessionCore::OpenStream(TimePoint now) {
  end_.OpenStream(BootNow());
  writing_ = reads_ended_ = heartbeat_due_ = false;
  hello_due_ = true;
  last_heard_ = next_heartbeat_ = now;
  stream_ = std::make_unique<ClientStream>(shared_from_this());
  stream_->Start(services_.stub());
  Pump();
}

void SessionCore::JudgeEnd(TimePoint now, std::vector<Notice>& notices) {
  const grpc::Status status = *std::exchange(done_, std::nullopt);
  stream_.reset();
  const bool was_welcomed = end_.CloseStream();
  changed_.NotifyAll();
  if (over_) return;
  if (const std::string redirected = std::exchange(redirected_, ""); !redirected.empty()) {
    retry_.BeginAway(now);
    return TellDisconnected(redirected, Duration::zero(), notices);
  }
  const bool silent = std::exchange(silent_, false);
  if (silent) {
    if (!was_welcomed) retry_.AttemptSilent();
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
                     silent ? silent_for_ : now - last_heard_, notices);
  }
  retry_.AttemptFailed(now);
  // A service that was there a moment ago may be restarting; then its host still answers.
  if (!was_welcomed || silent) services_.MoveOn();
  // Without a token nothing can be proven, so the answer of any rendezvous service counts.
  const bool of_service = status.error_code() != grpc::StatusCode::UNIMPLEMENTED;
  const bool proven =
      JudgeCredentials(where, status, options_.insecure).ok() && (!options_.insecure || of_service);
  JudgeRefused(where, JudgeRefusal(where, status, options_.insecure), proven, notices);
  if (options_.insecure && !was_welcomed && MayExpectTls(status)) tls_doubt_ = where;
}

void SessionCore::JudgeRefused(const std::string& where, const absl::Status& refusal, bool proven,
                               std::vector<Notice>& notices) {
  if (refusal.ok()) return;
  // Any process may listen where a service was, so its refusal does not end a job that was admitted once.
  const bool all_refuse = services_.OnRefused(where);
  if (proven || (end_.welcomed_by() == 0 && all_refuse)) return Fail(refusal, notices);
  last_error_ = std::string(refusal.message());
}

void SessionCore::TellDisconnected(std::string why, Duration silent_for, std::vector<Notice>& notices) {
  if (!handler_.disconnected) return;
  notices.push_back([this, why = std::move(why), silent_for] { handler_.disconnected(why, silent_for); });
}

void SessionCore::Fail(absl::Status status, std::vector<Notice>& notices) {
  over_ = true;
  if (handler_.failed) notices.push_back([this, status = std::move(status)] { handler_.failed(status); });
}

}  // namespace mtrun::rendezvous
