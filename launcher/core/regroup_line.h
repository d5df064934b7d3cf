// One short line for people about each regrouping: why, how many workers there are now, and when the first
// step of theirs was done. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mtrun::launcher {

/// What a generation ended for, in a few words: "node2 leaves: node2 received SIGINT" is "node2 left
/// (Ctrl-C)".
std::string ShortReason(std::string_view reason);

class RegroupLine {
 public:
  /// A generation of so many workers ended here.
  void Ended(std::string_view reason, int workers, TimePoint now);
  /// The next one begins.
  void Entered(int workers);
  /// So many steps are finished: the line, once after Entered.
  std::optional<std::string> OnSteps(int64_t steps, TimePoint now);

  bool operator==(const RegroupLine&) const = default;

 private:
  std::string reason_;  // "": nothing to tell
  int before_ = 0, after_ = 0;
  bool entered_ = false;
  TimePoint ended_;
};

}  // namespace mtrun::launcher
