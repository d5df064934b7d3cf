// Which nodes of a simulated cluster reach each other: every pair has a link, each link two directions, and
// each direction may be out for a while. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"

namespace mtrun::launcher {

class SimulatedNetwork {
 public:
  /// What `from` sends reaches `to`.
  bool Passes(size_t from, size_t to, TimePoint now) const { return Until(from, to) <= now; }
  /// A connection can be made: it needs both directions.
  bool Reach(size_t a, size_t b, TimePoint now) const { return Passes(a, b, now) && Passes(b, a, now); }
  /// When this direction passes again; long ago where it does.
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
  std::map<std::pair<size_t, size_t>, TimePoint> out_;  // directions, until when
};

}  // namespace mtrun::launcher
