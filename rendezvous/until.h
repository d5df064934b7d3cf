// A point of time as the states of the rendezvous show it to people.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

/// "+1.500 s" from `now`, "-0.200 s" when it has passed, "-" for none.
inline std::string Until(std::optional<TimePoint> when, TimePoint now) {
  return when ? absl::StrFormat("%+.3f s", ToSeconds(*when - now)) : "-";
}

}  // namespace mtrun::rendezvous
