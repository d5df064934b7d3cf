// What fuzz targets hold to be true. A test has each of these broken on purpose, once: a target that cannot fail, or
// an invariant that no kept input reaches, finds nothing.
#pragma once

#include <set>
#include <string>

#include "base/status_macros.h"

/// Ends the process if `condition` does not hold. Each stands on a line of its own.
#define MT_HOLDS(condition) MT_CHECK(::mtrun::fuzz::Holds((condition), __FILE__, __LINE__))

namespace mtrun::fuzz {

/// The places of invariants ("pmi_target.cc:35") that were reached, and the one that is broken on purpose.
struct InvariantWatch {
  std::set<std::string> reached;
  std::string broken;
};

/// Observes the invariants during its lifetime; one at a time.
class WatchInvariants {
 public:
  explicit WatchInvariants(InvariantWatch& watch);
  ~WatchInvariants();
  WatchInvariants(const WatchInvariants&) = delete;
  WatchInvariants& operator=(const WatchInvariants&) = delete;
};

/// Returns `condition`, or its opposite at the place that is broken.
bool Holds(bool condition, const char* file, int line);

}  // namespace mtrun::fuzz
