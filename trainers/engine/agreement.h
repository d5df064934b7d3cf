// Refuses to train when members differ in what must be the same: data, settings, program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainers/collectives/cpu_group.h"

namespace mtrun::engine {

/// (name, text) pairs in the same order on every member; null group: nothing to compare. One small reduction.
/// kFailedPrecondition on every member names what differs and this member's text.
absl::Status CheckAgreement(const collectives::ProcessGroup& group,
                            const std::vector<std::pair<std::string, std::string>>& items);

}  // namespace mtrun::engine
