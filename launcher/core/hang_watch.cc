#include "launcher/core/hang_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

HangWatch::HangWatch(Duration notice, Duration timeout, int slots)
    : notice_(notice), timeout_(timeout), tracks_(static_cast<size_t>(slots)) {}

void HangWatch::Restart(int local_rank, TimePoint now) {
  tracks_.at(static_cast<size_t>(local_rank)) = Track{.moved = now};
}

std::optional<Duration> HangWatch::OnProgress(int local_rank, TimePoint now) {
  Track& track = tracks_.at(static_cast<size_t>(local_rank));
  const Duration stalled = now - std::exchange(track.moved, now);
  return std::exchange(track.reported, std::nullopt) ? std::optional<Duration>(stalled) : std::nullopt;
}

void HangWatch::SetStep(int local_rank, int64_t step) {
  tracks_.at(static_cast<size_t>(local_rank)).steps = step;
}

std::optional<Duration> HangWatch::KilledAfter(int local_rank) const {
  const bool killed = tracks_.at(static_cast<size_t>(local_rank)).killed;
  return killed ? std::optional<Duration>(timeout_) : std::nullopt;
}

bool HangWatch::Watches(const WorkerSlots& slots, Scope scope, int local_rank) const {
  const WorkerSlot& slot = slots[local_rank];
  if (scope == Scope::kNobody || !slot.running() || !slot.regroups() || KilledAfter(local_rank)) return false;
  if (slot.member()) return scope == Scope::kAll && !slot.done() && !slot.said_leaving;
  return !slot.warm;
}

std::optional<TimePoint> HangWatch::NextLook(const WorkerSlots& slots, Scope scope) const {
  std::optional<TimePoint> next;
  for (int i = 0; i < slots.size(); ++i) {
    if (!Watches(slots, scope, i)) continue;
    const Track& track = tracks_[static_cast<size_t>(i)];
    for (const Duration after : {track.reported ? Duration::zero() : notice_, timeout_}) {
      if (after != Duration::zero()) next = Earlier(next, track.moved + after);
    }
  }
  return next;
}

HangWatch::Hang HangWatch::HangOf(const WorkerSlots& slots, int local_rank, Duration stalled) const {
  Hang hang{.local_rank = local_rank, .stalled = stalled};
  if (slots[local_rank].member()) hang.step = tracks_[static_cast<size_t>(local_rank)].steps;
  return hang;
}

std::vector<HangWatch::Hang> HangWatch::Look(const WorkerSlots& slots, Scope scope, TimePoint now) {
  std::vector<Hang> hangs;
  for (int i = 0; i < slots.size(); ++i) {
    if (!Watches(slots, scope, i)) continue;
    Track& track = tracks_[static_cast<size_t>(i)];
    Hang hang = HangOf(slots, i, now - track.moved);
    hang.kill = timeout_ > Duration::zero() && hang.stalled >= timeout_;
    const bool notice = notice_ > Duration::zero() && hang.stalled >= notice_ && !track.reported;
    if (!hang.kill && !notice) continue;
    track.reported = hang.stalled;
    track.killed = hang.kill;
    hangs.push_back(hang);
  }
  return hangs;
}

std::vector<HangWatch::Hang> HangWatch::Reported(const WorkerSlots& slots, Scope scope) const {
  std::vector<Hang> hangs;
  for (int i = 0; i < slots.size(); ++i) {
    const Track& track = tracks_[static_cast<size_t>(i)];
    if (track.reported && Watches(slots, scope, i)) hangs.push_back(HangOf(slots, i, *track.reported));
  }
  return hangs;
}

std::string HangWatch::Describe() const {
  std::string text;
  for (size_t i = 0; i < tracks_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", i, " at step ", tracks_[i].steps,
                    tracks_[i].reported ? " stalled" : "", tracks_[i].killed ? " killed" : "");
  }
  return text;
}

std::string Describe(const HangWatch::Hang& hang, const std::string& name) {
  std::string text = absl::StrCat(name, ": no progress for ", HumanDuration(hang.stalled));
  if (hang.step) absl::StrAppend(&text, " since step ", *hang.step);
  if (hang.kill) absl::StrAppend(&text, " (--hang_timeout): killing it");
  return text;
}

}  // namespace mtrun::launcher
