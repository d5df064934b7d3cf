// Refuses to train when members differ in what must be the same: version, program, data, settings.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/version.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/run/identity.h"

namespace mtrun::trainers {

/// Compares this member's `identity` and `version` with those of all; null group: nothing to compare. One
/// small reduction of fixed shape where all agree, so that members of other versions can be told.
/// kFailedPrecondition on every member names what differs and who has what.
absl::Status CheckAgreement(const collectives::ProcessGroup& group, const RunIdentity& identity,
                            const std::string& version = Version());

}  // namespace mtrun::trainers
