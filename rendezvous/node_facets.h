// What the indexes of a roster go by: as much of a node's state as says where it stands in them. A value.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// As it stands here: of a node that is not in the roster.
struct NodeFacets {
  bool here = false;                                      // it is in the roster
  bool ready = false, starting = false, awaited = false;  // for the next generation; one of them at most
  bool connected = false, confirmed = false, greeted = false, expected = false;
  int workers = 0;   // of its last offer
  std::string host;  // of its last offer, "" for none
  std::string told;  // the last Waiting it was sent
  uint64_t run = 0;  // incarnation of the run that it knows
  Generation knows;  // the newest membership that it was sent
  TimePoint lost_at;
  bool operator==(const NodeFacets&) const = default;
};

}  // namespace mtrun::rendezvous
