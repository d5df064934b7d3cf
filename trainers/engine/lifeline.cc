#include "trainers/engine/lifeline.h"

#include "absl/strings/str_cat.h"

namespace mtrun::engine {

void Lifeline::Hear(const channel::AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* assignment = std::get_if<channel::Assignment>(&message)) {
    const bool other = !entered_ || *entered_ != assignment->generation;
    newest_ = *assignment;
    if (entered_ && other && !gentle_)
      Break(absl::StrCat("generation ", assignment->generation.number, " has begun"));
  } else if (const auto* dissolved = std::get_if<channel::Dissolved>(&message)) {
    dissolved_ = dissolved->generation;
    why_dissolved_ = dissolved->why;
    if (entered_ == dissolved_ && dissolved->gentle) {
      gentle_ = true;
    } else if (entered_ == dissolved_) {
      gentle_ = false;
      Break(dissolved->why);
    }
  } else if (const auto* stop = std::get_if<channel::Stop>(&message)) {
    stop_ = stop->why.empty() ? "the agent says stop" : stop->why;
    Break(stop_);
  } else if (const auto* drain = std::get_if<channel::Drain>(&message)) {
    drain_ = drain->why.empty() ? "the agent asks for it" : drain->why;
    drains_ = true;
  }
  changed_.notify_all();
}

void Lifeline::Lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  lost_ = why;
  Break(why);
  changed_.notify_all();
}

void Lifeline::Break(const std::string& why) {
  if (abort_) abort_(why);
}

bool Lifeline::IsOverLocked() const {
  if (!lost_.empty() || !stop_.empty()) return true;
  if (!entered_ || gentle_) return false;
  return dissolved_ == entered_ || (newest_ && newest_->generation != *entered_);
}

bool Lifeline::IsOver() const {
  const std::lock_guard lock(mutex_);
  return IsOverLocked();
}

absl::StatusOr<channel::Assignment> Lifeline::Next(std::optional<TimePoint> deadline) {
  std::unique_lock lock(mutex_);
  const auto something = [this] {
    const bool fresh = newest_ && entered_ != newest_->generation && dissolved_ != newest_->generation;
    return fresh || !lost_.empty() || !stop_.empty();
  };
  if (!deadline) {
    changed_.wait(lock, something);
  } else if (!changed_.wait_until(lock, *deadline, something)) {
    return absl::DeadlineExceededError("no new assignment yet");
  }
  if (!stop_.empty()) return absl::CancelledError(stop_);
  if (!lost_.empty()) return absl::UnavailableError(lost_);
  entered_ = newest_->generation;
  gentle_ = false;
  return *newest_;
}

absl::Status Lifeline::WaitForEnd(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto followed = [this] {
    return gentle_ || dissolved_ == entered_ || (newest_ && newest_->generation != entered_);
  };
  const auto something = [&] { return !lost_.empty() || !stop_.empty() || followed(); };
  if (!changed_.wait_until(lock, deadline, something)) return absl::DeadlineExceededError("nothing yet");
  if (!lost_.empty() || !stop_.empty()) return absl::OkStatus();
  return absl::UnavailableError(dissolved_ == entered_ ? why_dissolved_ : "another generation has begun");
}

void Lifeline::OnBreak(std::function<void(const std::string&)> abort) {
  const std::lock_guard lock(mutex_);
  abort_ = std::move(abort);
  if (!abort_ || !IsOverLocked()) return;
  abort_(!stop_.empty() ? stop_ : !lost_.empty() ? lost_ : why_dissolved_);
}

std::string Lifeline::drain_wish() const {
  const std::lock_guard lock(mutex_);
  return drain_;
}

}  // namespace mtrun::engine
