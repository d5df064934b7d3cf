// Guarantees that no process started by mtrun outlives it, even after kill -9. The process that the user
// started stays as the front; it forks a guardian, which forks the agent. Front and guardian are child
// subreapers and only wait. The guardian also answers at the presence port, and kills the workers when the
// lease's alarm rings:
//
//     front (the pid the user sees)  ->  guardian  ->  agent  ->  workers
//
// A process that loses its child or its parent kills all its descendants (as a subreaper it adopts orphans).
// One of the three may thus be killed, or front and agent together, and nothing is left. (`killall mtrun`
// hits only these two because the guardian has another name; `pkill -f` sees other command lines.) Stop
// signals are passed down, the exit status is passed up. After status 0 nothing is killed: a successful job
// may leave processes on purpose.
#pragma once

#include <signal.h>

#include "launcher/cli/signals.h"
#include "launcher/net/presence_port.h"
#include "launcher/workers/lease_alarm.h"

namespace mtrun::launcher {

/// Sets the signals to handle from now on; the default is DefaultSignals(). A default SIGHUP that was ignored
/// at the start (nohup) stays ignored. Call before BecomeGuarded.
void SetSignals(SignalPlan plan);

/// Returns the signals that stop mtrun.
sigset_t StopSignals();
/// Takes a stop signal that is pending or arrives within `pause`; 0 if there is none. They must be blocked.
int StopSignalWithin(Duration pause);
/// Returns whether a stop signal or ParentGoneSignal() is pending, without taking it. They must be blocked.
bool StopSignalPending();
/// Returns true for a signal that is passed on to the workers and stops nothing.
bool IsForwarded(int signal);
/// Returns true for SIGUSR2 unless it stops mtrun or is passed on: the agent dumps its workers' stacks.
bool AsksForStacks(int signal);
/// Returns all signals that the agent reads through a signalfd: the above, SIGCHLD and ParentGoneSignal().
sigset_t WatchedSignals();

/// Delivered to the agent when the guardian is gone; the agent then kills its descendants and exits.
int ParentGoneSignal();

/// Returns only in the agent, with WatchedSignals blocked. Call before the first thread starts. If it cannot
/// fork, it logs an error and exits with 1. Guardian and agent hold `presence`. The front closes it because
/// it is not a process of the job: it may be suspended, or the last one to exit.
void BecomeGuarded(PresencePort& presence, const LeaseAlarm& alarm);

}  // namespace mtrun::launcher
