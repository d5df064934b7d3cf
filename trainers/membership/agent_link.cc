#include "trainers/membership/agent_link.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

constexpr double kMaxWatch = 60;  // seconds

}  // namespace

void AgentLink::Hear(const channel::AgentMessage& message) {
  if (const auto* watch = std::get_if<channel::Watch>(&message)) {
    watched_until_ = MonotonicNow() + FromSeconds(std::clamp(watch->seconds, 0.0, kMaxWatch));
    return;
  }
  const MutexLock lock(mutex_);
  if (const auto* assignment = std::get_if<channel::Assignment>(&message)) {
    const bool other = !entered_ || *entered_ != assignment->generation;
    newest_ = *assignment;
    if (entered_ && other && !graceful_)
      Break(absl::StrCat("generation ", assignment->generation.number, " has begun"));
  } else if (const auto* dissolved = std::get_if<channel::Dissolved>(&message)) {
    ended_ = dissolved->generation;
    why_ended_ = dissolved->why;
    if (entered_ == ended_ && dissolved->graceful) {
      graceful_ = true;
    } else if (entered_ == ended_) {
      graceful_ = false;
      Break(dissolved->why);
    }
  } else if (const auto* stop = std::get_if<channel::Stop>(&message)) {
    stop_ = stop->why.empty() ? "stopped by the agent" : stop->why;
    complete_ = stop->complete;
    others_continue_ = stop->others_continue;
    Break(stop_);
  } else if (const auto* drain = std::get_if<channel::Drain>(&message)) {
    drain_ = drain->why.empty() ? "drain requested by the agent" : drain->why;
    if (!drains_since_) drains_since_ = MonotonicNow();
    drains_ = true;
  }
  changed_.NotifyAll();
}

void AgentLink::Lose(const std::string& why) {
  const MutexLock lock(mutex_);
  lost_ = why;
  Break(why);
  changed_.NotifyAll();
}

void AgentLink::Break(const std::string& why) {
  if (abort_) abort_(why);
}

bool AgentLink::IsOverLocked() const {
  if (!lost_.empty() || !stop_.empty()) return true;
  if (!entered_ || graceful_) return false;
  return ended_ == entered_ || (newest_ && newest_->generation != *entered_);
}

bool AgentLink::IsOver() const {
  const MutexLock lock(mutex_);
  return IsOverLocked();
}

bool AgentLink::HasNext() const {
  const MutexLock lock(mutex_);
  return HasNextLocked() && stop_.empty() && lost_.empty();
}

bool AgentLink::HasNextLocked() const {
  return newest_ && entered_ != newest_->generation && ended_ != newest_->generation;
}

absl::StatusOr<channel::Assignment> AgentLink::Next(std::optional<TimePoint> deadline) {
  const MutexLock lock(mutex_);
  const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return HasNextLocked() || !lost_.empty() || !stop_.empty();
  };
  while (!something()) {
    if (!deadline) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, *deadline) && !something()) {
      return absl::DeadlineExceededError("no new assignment yet");
    }
  }
  if (!stop_.empty()) return absl::CancelledError(stop_);
  if (!lost_.empty()) return absl::UnavailableError(lost_);
  entered_ = newest_->generation;
  graceful_ = false;
  return *newest_;
}

absl::Status AgentLink::WaitForEnd(TimePoint deadline) {
  const MutexLock lock(mutex_);
  const auto followed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return graceful_ || ended_ == entered_ || (newest_ && newest_->generation != entered_);
  };
  const auto something = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !lost_.empty() || !stop_.empty() || followed();
  };
  while (!something()) {
    if (!changed_.WaitUntil(mutex_, deadline) && !something())
      return absl::DeadlineExceededError("nothing yet");
  }
  if (!lost_.empty() || !stop_.empty()) return absl::OkStatus();
  return absl::UnavailableError(ended_ == entered_ ? why_ended_ : "another generation has begun");
}

void AgentLink::OnBreak(std::function<void(const std::string&)> abort) {
  const MutexLock lock(mutex_);
  abort_ = std::move(abort);
  if (!abort_ || !IsOverLocked()) return;
  abort_(!stop_.empty() ? stop_ : !lost_.empty() ? lost_ : why_ended_);
}

std::string AgentLink::drain_wish() const {
  const MutexLock lock(mutex_);
  return drain_;
}

std::optional<TimePoint> AgentLink::drains_since() const {
  const MutexLock lock(mutex_);
  return drains_since_;
}

}  // namespace mtrun::trainers
