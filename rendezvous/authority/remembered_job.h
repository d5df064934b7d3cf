// State of a job that a service must take over if it starts afresh at the same place.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

struct RememberedJob {
  Assignment generation;           // the last one that ran
  std::set<std::string> verified;  // ids of its nodes that answered at their presence ports; see Departures
  std::map<std::string, std::string> spares = {};  // services by the ids of other nodes; see Spares
  bool operator==(const RememberedJob&) const = default;
};

/// A run that is over. A node that was away and still has a generation of it learns the outcome from this.
struct RememberedEnd {
  std::string job_id;
  EndedRun run;
  JobOutcome outcome;  // read from a file: without its root cause, which its reason then describes
  bool operator==(const RememberedEnd&) const = default;
};

}  // namespace mtrun::rendezvous
