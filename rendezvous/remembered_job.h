// What a service knows of a job that one after it, which starts afresh at the same place, must know as well.
#pragma once

#include <set>
#include <string>

#include "rendezvous/types.h"

namespace mtrun::rendezvous {

struct RememberedJob {
  Assignment generation;           // the last one that ran
  std::set<std::string> verified;  // ids of its nodes that answered at their presence ports; see Departures
  bool operator==(const RememberedJob&) const = default;
};

}  // namespace mtrun::rendezvous
