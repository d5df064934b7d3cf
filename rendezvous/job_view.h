// What people see of a job (Status).
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/job_run.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

struct NodeView {
  std::string node_id, host, address, state;
  int node_rank = -1, first_rank = -1, workers = 0;  // ranks are -1 for a node that is not a member
  Duration silent_for = Duration::zero(), main_loop_age = Duration::zero();
  std::string note = {};                 // its agent's, "" for none
  Duration note_age = Duration::zero();  // since it came
};
struct JobView {
  JobSettings settings;
  std::string phase, reason;
  Generation generation;
  int restart_count = 0;
  bool authority = true;                  // this service may change the membership
  uint64_t incarnation = 0;               // of the run that it is about
  RunProof proof = RunProof::kNone;       // with any, nodes of other ones are turned away
  Duration phase_age = Duration::zero();  // since the phase or the generation changed
  std::vector<NodeView> nodes;            // members by rank, then the others
};

/// Members of the generation that runs by rank, then the others by id. `ended`: the job is over.
std::vector<NodeView> MakeNodeViews(const Roster& roster, const GenerationRecord& generation, bool ended,
                                    TimePoint now);

}  // namespace mtrun::rendezvous
