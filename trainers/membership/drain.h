// SIGTERM, SIGINT and SIGUSR1 as requests: finish the step, save or hand over, leave. The same signal again
// has its ordinary effect.
#pragma once

#include <string>

namespace mtrun::trainers {

/// Installs the handlers; once, at the start of the program.
void CatchDrainSignals();
/// The signal that came, 0 while none did. Any thread.
int DrainSignal();
}  // namespace mtrun::trainers
