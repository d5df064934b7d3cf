// One short log line about each regrouping: why, how many workers there are now, and when their first step
// was done. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/cause.h"

namespace mtrun::launcher {

/// Returns the reason why a generation ended in a few words: "node2 left (Ctrl-C)".
std::string InAFewWords(const rendezvous::Cause& cause);

class RegroupLine {
 public:
  /// Records that a generation of `workers` workers ended here.
  void Ended(const rendezvous::Cause& cause, int workers, TimePoint now);
  /// Records that the next generation begins.
  void Entered(int workers);
  /// Records that `steps` steps are finished. Returns the line, once after each Entered.
  std::optional<std::string> OnSteps(int64_t steps, TimePoint now);

  /// Returns why the last generation ended; "" once OnSteps has returned the line.
  const std::string& reason() const { return reason_; }
  bool operator==(const RegroupLine&) const = default;

 private:
  std::string reason_;  // "": nothing to report
  int before_ = 0, after_ = 0;
  bool entered_ = false;
  TimePoint ended_;
};

}  // namespace mtrun::launcher
