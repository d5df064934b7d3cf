// SIGTERM, SIGINT and SIGUSR1 as a wish: finish the step, save or hand over, go. The same signal again has
// its ordinary effect.
#pragma once

#include <string>

namespace mtrun::engine {

/// Installs the handlers; once, at the start of the program.
void CatchDrainSignals();
/// The signal that came, 0 while none did. Any thread.
int DrainSignal();
/// "SIGTERM".
std::string DrainSignalName(int signal);

}  // namespace mtrun::engine
