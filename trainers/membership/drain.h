// Handles SIGTERM, SIGINT and SIGUSR1 as drain requests: finish the step, save or hand over, leave. If the
// same signal is repeated, it kills the process, because the user means it. Slurm signals every process of a
// step, and mtrun forwards its own signal, so a repetition within kSignalEchoMs is ignored.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace mtrun::trainers {

inline constexpr int64_t kSignalEchoMs = 1000;

/// Installs the handlers. Call it once, at the start of the program.
void CatchDrainSignals();
/// Returns the latest drain signal, 0 if there was none. Any thread.
int DrainSignal();
/// Returns when the first one arrived, nothing if there was none. Any thread.
std::optional<TimePoint> DrainSignalAt();

}  // namespace mtrun::trainers
