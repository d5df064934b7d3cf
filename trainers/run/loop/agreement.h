// Refuses to train if members differ in anything that must be equal: version, program, data, settings.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/version.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/run/rules/identity.h"

namespace mtrun::trainers {

/// Compares this member's `identity` and `version` with those of all members; does nothing if `group` is
/// null. If all agree, this is one small reduction of fixed shape, so members of other versions are detected
/// too. If not, every member gets kFailedPrecondition that names each difference and the ranks that have it.
/// Returns the kinds of the members' machines, which can differ.
absl::StatusOr<Machines> CheckAgreement(const collectives::ProcessGroup& group, const RunIdentity& identity,
                                        const std::string& version = Version());

}  // namespace mtrun::trainers
