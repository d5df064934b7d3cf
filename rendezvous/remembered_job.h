// What a service knows of a job that one after it, which starts afresh at the same place, must know as well.
#pragma once

#include <set>
#include <string>

#include "rendezvous/job_run.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

struct RememberedJob {
  Assignment generation;           // the last one that ran
  std::set<std::string> verified;  // ids of its nodes that answered at their presence ports; see Departures
  bool operator==(const RememberedJob&) const = default;
};

/// A run of a job that is over: a node that was away then, and has a generation of it still, hears how.
struct RememberedEnd {
  std::string job_id;
  EndedRun run;
  JobOutcome outcome;  // without its root cause
  bool operator==(const RememberedEnd&) const = default;
};

}  // namespace mtrun::rendezvous
