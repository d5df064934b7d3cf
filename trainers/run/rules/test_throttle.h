// Delays for tests that need long steps and long evaluations (MTRUN_PACE).
#pragma once

#include "base/clock.h"
#include "trainers/membership/membership.h"

namespace mtrun::trainers {

/// Sleeps until `until`. Returns at once if the generation is over: an aborted step needs no delay.
void DelayForTest(const Membership& membership, TimePoint until);

}  // namespace mtrun::trainers
