// Event loop of RunOverSsh: connects connections, signals and time with RemoteJob's decisions.
#pragma once

#include "base/posix.h"
#include "base/worker_env.h"
#include "launcher/ssh/remote_job.h"
#include "launcher/ssh/ssh_launch.h"

namespace mtrun::launcher {

/// Runs until the job has ended; returns its exit status. `environment`: for ssh. `signals`: a signalfd.
int RunSshLoop(SshLaunch launch, RemoteJob::Config config, EnvironmentMap environment, UniqueFd signals);

}  // namespace mtrun::launcher
