// Reachability in a simulated cluster: every pair of nodes has a link with two directions, each of which can
// be out for a while. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"

namespace mtrun::launcher {

class SimulatedNetwork {
 public:
  /// Returns whether data from `from` reaches `to`.
  bool Passes(size_t from, size_t to, TimePoint now) const { return Until(from, to) <= now; }
  /// Returns whether a connection can be made, which needs both directions.
  bool Reach(size_t a, size_t b, TimePoint now) const { return Passes(a, b, now) && Passes(b, a, now); }
  /// Returns when this direction passes again; a time long ago if it passes now.
  TimePoint Until(size_t from, size_t to) const {
    const auto cut = from == to ? out_.end() : out_.find({from, to});
    return cut == out_.end() ? TimePoint() : cut->second;
  }

  void Cut(size_t from, size_t to, TimePoint until) {
    TimePoint& out = out_[{from, to}];
    out = std::max(out, until);
  }
  void MendAll() { out_.clear(); }

 private:
  std::map<std::pair<size_t, size_t>, TimePoint> out_;  // end of the outage, by direction
};

}  // namespace mtrun::launcher
