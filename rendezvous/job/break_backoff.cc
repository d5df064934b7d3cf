#include "rendezvous/job/break_backoff.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

/// The first break has no pause: most breaks are a death that is reported a moment later.
Duration BreakBackoff::PauseAfter(int breaks) {
  if (breaks < 2) return Duration::zero();
  return std::min<Duration>(kMaxPause, kFirstPause * (1 << std::min(breaks - 2, 20)));
}

void BreakBackoff::OnGeneration(TimePoint now) {
  began_ = now;
  stepped_ = false;
  pause_ends_.reset();
}

void BreakBackoff::OnStep() {
  breaks_ = 0;
  stepped_ = true;
}

void BreakBackoff::OnBreak(TimePoint now, bool connected) {
  if (stepped_ || (connected && now - began_ >= kLongRun)) breaks_ = 0;
  ++breaks_;
  pause_ends_ = now + PauseAfter(breaks_);
}

void BreakBackoff::Clear() {
  breaks_ = 0;
  pause_ends_.reset();
}

std::optional<TimePoint> BreakBackoff::PauseEnds(TimePoint now) const {
  return pause_ends_ && now < *pause_ends_ ? pause_ends_ : std::nullopt;
}

std::string BreakBackoff::PauseText() const {
  return absl::StrCat("the last ", breaks_, breaks_ == 1 ? " generation" : " generations",
                      " broke without a step; a short pause before the next one");
}

std::string BreakBackoff::Describe(TimePoint now) const {
  if (breaks_ == 0) return "";
  return absl::StrCat("breaks ", breaks_, ", began ", Until(began_, now), ", pause ends ",
                      Until(pause_ends_, now));
}

}  // namespace mtrun::rendezvous
