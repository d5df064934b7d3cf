// Nothing that mtrun started outlives it, not even after kill -9. The process that the user started stays
// behind as the front; it forks a guardian, which forks the agent. Front and guardian are child subreapers
// and do nothing but wait; the guardian answers at the presence port besides, and ends the workers when the
// lease's alarm rings:
//
//     front (the pid the user sees)  ->  guardian  ->  agent  ->  workers
//
// Whoever loses its child kills every descendant (orphans come to it, being a subreaper); whoever loses its
// parent does so too. So one of them may be killed, or front and agent together (killall mtrun: the guardian
// has another name, and for pkill -f other command lines), and nothing is left. Stop signals are passed down,
// the exit status is passed up. With 0 nothing is killed: what a successful job left running is meant to.
#pragma once

#include <signal.h>

#include "launcher/cli/signals.h"
#include "launcher/net/presence_port.h"
#include "launcher/workers/lease_alarm.h"

namespace mtrun::launcher {

/// Decides which signals count from here on; without it DefaultSignals(). A default SIGHUP that was ignored
/// at the start (nohup) stays ignored. Call before BecomeGuarded.
void SetSignals(SignalPlan plan);

/// Signals that stop mtrun.
sigset_t StopSignals();
/// One of them that is pending or comes within `pause`, taken; 0 for none. They must be blocked.
int StopSignalWithin(Duration pause);
/// One of them, or ParentGoneSignal(), is pending; it stays so. They must be blocked.
bool StopSignalPending();
/// True for a signal that is passed on to the workers and stops nothing.
bool IsForwarded(int signal);
/// SIGUSR2, unless it stops mtrun or is passed on: the agent writes down what its workers do.
bool AsksForStacks(int signal);
/// All that the agent reads through a signalfd: those above, SIGCHLD and ParentGoneSignal().
sigset_t WatchedSignals();

/// Delivered to the agent when the guardian is gone; the agent then kills what it started and ends.
int ParentGoneSignal();

/// Returns in the agent only, with WatchedSignals blocked. Call before the first thread. If it cannot fork,
/// it says so and ends with 1. Guardian and agent hold `presence`, the front gives it up: it may be stopped
/// or the last one to end, and is no process of the job.
void BecomeGuarded(PresencePort& presence, const LeaseAlarm& alarm);

}  // namespace mtrun::launcher
