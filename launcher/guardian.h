// Nothing that mtrun started outlives it, not even after kill -9. The process that the user started stays
// behind as the front; it forks a guardian, which forks the agent. Front and guardian are child subreapers
// and do nothing but wait:
//
//     front (the pid the user sees)  ->  guardian  ->  agent  ->  workers
//
// Whoever loses its child kills every descendant (orphans come to it, being a subreaper); whoever loses its
// parent does so too. So one of them may be killed, or front and agent together (killall mtrun: the guardian
// has another name), and nothing is left. Stop signals are passed down, the exit status is passed up.
#pragma once

#include <signal.h>

namespace mtrun::launcher {

/// Signals that stop mtrun: SIGTERM, SIGINT, SIGHUP, SIGQUIT; without SIGHUP when it was ignored at the start
/// (nohup).
sigset_t StopSignals();

/// Delivered to the agent when the guardian is gone; the agent then kills what it started and ends.
int ParentGoneSignal();

/// Returns in the agent only, with all signals that it reads through a signalfd blocked (StopSignals,
/// SIGCHLD, ParentGoneSignal). Call before the first thread. If it cannot fork, it says so and ends with 1.
void BecomeGuarded();

}  // namespace mtrun::launcher
