// Formats a time point for descriptions of rendezvous states.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

/// Returns "+1.500 s" after `now`, "-0.200 s" if it has passed, "-" for none.
inline std::string Until(std::optional<TimePoint> when, TimePoint now) {
  return when ? absl::StrFormat("%+.3f s", ToSeconds(*when - now)) : "-";
}

}  // namespace mtrun::rendezvous
