// The nodes of a job as people see them.
#pragma once

#include <vector>

#include "base/clock.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/wire/job_view.h"

namespace mtrun::rendezvous {

/// Returns the members of the running generation by rank, then the others by id. `ended`: the job is over.
std::vector<NodeView> MakeNodeViews(const Roster& roster, const GenerationRecord& generation, bool ended,
                                    TimePoint now);

}  // namespace mtrun::rendezvous
