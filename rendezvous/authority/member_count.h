// Counts the members of a generation that are here, and decides whether they are a quorum (docs/protocol.md,
// R7). A value.
#pragma once

#include <cstddef>

namespace mtrun::rendezvous {

struct MemberCount {
  size_t here = 0, missing = 0;  // without members that are gone
  size_t counted = 0;            // all but those that left: the dead and evicted count against the others
  bool lowest_here = false;      // the member with the lowest rank is here

  /// True if the others cannot be a majority, even if all of them live. `halves`: half of the members with
  /// the lowest rank suffices, because only one of two halves has it.
  bool IsMajority(bool halves = false) const {
    return 2 * here > counted || (halves && 2 * here == counted && lowest_here);
  }
  bool IsQuorum(bool halves = false) const { return missing == 0 || IsMajority(halves); }
};

}  // namespace mtrun::rendezvous
