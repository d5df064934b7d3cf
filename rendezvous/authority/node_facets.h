// The keys of a roster's indexes: the part of a node's state that decides its place in them. A value.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// The defaults are those of a node that is not in the roster.
struct NodeFacets {
  bool here = false;                                      // the node is in the roster
  bool ready = false, starting = false, awaited = false;  // for the next generation; at most one of them
  bool connected = false, confirmed = false, greeted = false, expected = false;
  bool ordinary = false;  // its workers start again in each generation
  int workers = 0;        // in its last offer
  std::string host;       // in its last offer, "" for none
  std::string told;       // text of the last Waiting sent to it
  uint64_t run = 0;       // incarnation of the run that it knows
  Generation knows;       // the newest membership that was sent to it
  TimePoint lost_at;
  bool operator==(const NodeFacets&) const = default;
};

}  // namespace mtrun::rendezvous
