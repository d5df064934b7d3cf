// SIGTERM, SIGINT and SIGUSR1 as requests: finish the step, save or hand over, leave. The same signal again
// kills: a person who asks twice means it. Slurm sends a signal to every process of a step, and mtrun passes
// its own on, so that one soon after the first is the first.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace mtrun::trainers {

inline constexpr int64_t kSignalEchoMs = 1000;

/// Installs the handlers; once, at the start of the program.
void CatchDrainSignals();
/// The signal that came last, 0 while none did. Any thread.
int DrainSignal();
/// When the first one came, nothing while none did. Any thread.
std::optional<TimePoint> DrainSignalAt();

}  // namespace mtrun::trainers
