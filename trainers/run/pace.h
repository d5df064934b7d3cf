// For tests that need long steps and long evaluations (MTRUN_PACE).
#pragma once

#include "base/clock.h"
#include "trainers/membership/membership.h"

namespace mtrun::trainers {

/// Waits until then without keeping a processor busy. At once where the generation is over: a step that is
/// aborted is not waited for.
void Pace(const Membership& membership, TimePoint until);

}  // namespace mtrun::trainers
