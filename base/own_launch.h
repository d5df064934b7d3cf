// Tells which of a launcher's variables are this process's own. A job that a worker submits, a step that it
// starts by srun and a launcher in it inherit all of them. docs/protocol.md, "Variables that are inherited".
#pragma once

#include <string>

#include "base/worker_env.h"

namespace mtrun {

/// What the process that listens at MTRUN_SOCKET is to this process. An agent's parent, the guardian, counts
/// as well, because it inherits orphans.
enum class SocketOwner {
  kAbove,      // this process or an ancestor
  kElsewhere,  // another process of this machine
  kUnknown,    // it does not answer, or not all ancestors can be seen
};

/// Connects to the socket, whose kernel names the listening process, and compares that with the ancestors.
SocketOwner LookAtOwner(const std::string& socket);

/// MTRUN_STEP: the batch job and step of an mtrun, so that another step is recognised. Returns "" outside of
/// batch systems.
std::string StepOf(const EnvironmentMap& environment);
/// MTRUN_WORKER: the place that mtrun gave to a worker, so that the variables of another launcher are
/// recognised.
std::string PlaceOf(const EnvironmentMap& environment);

/// Returns whether this process is below the mtrun of MTRUN_SOCKET, in the same step. Pure.
bool IsBelowMtrun(const EnvironmentMap& environment, SocketOwner owner);
/// Removes the variables of another job: those of an mtrun that this process is not below, and those of an
/// mtrun below which another launcher started this process. Pure.
void RemoveOtherJobs(EnvironmentMap& environment, SocketOwner owner);
/// The same, with the owner as it is.
EnvironmentMap OwnLaunch(EnvironmentMap environment);

}  // namespace mtrun
