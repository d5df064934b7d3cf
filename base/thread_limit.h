// The limit on processes and threads, as a user sees it.
#pragma once

namespace mtrun {

/// Makes an uncaught failure to start a thread end the process with one sentence and status 1. `name`: the
/// program's, for that sentence. StartThread (start_thread.h) is for threads that a program can do without.
void ExplainLackOfThreads(const char* name);

}  // namespace mtrun
