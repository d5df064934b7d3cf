#include "launcher/core/stop_ladder.h"

#include <csignal>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

void StopLadder::Kill(TimePoint now, EffectList* out) {
  out->Add(SignalWorkers{SIGKILL});
  deadline_ = now + kKillPatience;
  killed_ = true;
}

StopLadder::Rung StopLadder::At(TimePoint now) const {
  if (!deadline_ || now < *deadline_) return Rung::kWait;
  return killed_ ? Rung::kGiveUp : Rung::kKill;
}

std::string StopLadder::Describe() const {
  static constexpr const char* kNexts[] = {"awaits the service", "rejoins", "exits"};
  std::string text = kNexts[static_cast<int>(next)];
  if (exit) absl::StrAppend(&text, " with ", exit->code);
  if (deadline_) absl::StrAppend(&text, killed_ ? "; killed" : "; signalled");
  return text;
}

}  // namespace mtrun::launcher
