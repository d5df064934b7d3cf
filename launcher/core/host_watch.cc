#include "launcher/core/host_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::launcher {

void HostWatch::OnConnected(const rendezvous::ServiceHost& host, TimePoint now) {
  if (host != host_) verified_ = dead_ = false;
  host_ = host;
  away_since_.reset();
  next_look_ = now;
  looks_ = 0;
  evicted_ = told_ = held_told_ = false;
}

void HostWatch::OnDisconnected(TimePoint now, Duration silent_for) {
  if (away_since_) return;
  away_since_ = now - silent_for;
  next_look_ = now;
}

void HostWatch::OnLooked(const rendezvous::ServiceHost& looked, const Found& found, TimePoint now) {
  if (looked != host_) return;  // the job has another host by now
  verified_ = verified_ || found.alive;
  const bool proves = (found.dead && verified_) || (found.refused && !host_.service.empty());
  dead_ = dead_ || (proves && away_since_);
  if (!away_since_) ++looks_;
  next_look_ = now + kPause;
}

bool HostWatch::Wanted() const {
  const bool answers = !host_.presence.endpoint.empty() && host_.presence.id != 0;
  if (!away_since_) return answers && !verified_ && looks_ < kMaxLooks;
  return !dead_ && ((answers && verified_) || !host_.service.empty());
}

std::optional<rendezvous::ServiceHost> HostWatch::Look(TimePoint now) const {
  return Wanted() && now >= next_look_ ? std::optional(host_) : std::nullopt;
}

bool HostWatch::TakeOver(TimePoint now) {
  const bool silent = majority_ && away_since_ && now >= *away_since_ + silence_;
  return away_since_ && (dead_ || evicted_ || silent) && !std::exchange(told_, true);
}

std::optional<TimePoint> HostWatch::held_due() const {
  const bool may_be_held = away_since_ && host_.embedded && !dead_ && !evicted_ && !majority_;
  return may_be_held && !held_told_ ? std::optional(*away_since_ + kHeldNotice) : std::nullopt;
}

bool HostWatch::TellHeld(TimePoint now) {
  const std::optional<TimePoint> due = held_due();
  return due && now >= *due && !std::exchange(held_told_, true);
}

std::optional<TimePoint> HostWatch::NextDeadline() const {
  std::optional<TimePoint> next;
  if (Wanted()) next = next_look_;
  if (majority_ && away_since_ && !told_) next = Earlier(next, *away_since_ + silence_);
  return next;
}

std::string HostWatch::Describe(TimePoint now) const {
  std::string text = host_.presence.endpoint.empty() ? "no host" : host_.presence.endpoint;
  if (verified_) text += " has answered";
  if (away_since_) absl::StrAppend(&text, " away since ", rendezvous::Until(away_since_, now));
  if (dead_) text += ", dead";
  if (told_) text += ", takeover told";
  if (Wanted()) absl::StrAppend(&text, ", next look ", rendezvous::Until(next_look_, now));
  return text;
}

}  // namespace mtrun::launcher
