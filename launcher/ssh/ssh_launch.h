// Builds the order for each host from the command line of the starting mtrun. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/options.h"
#include "launcher/ssh/hosts.h"
#include "launcher/ssh/ssh_command.h"
#include "launcher/ssh/wire.h"

namespace mtrun::launcher {

/// Values shared by all hosts.
struct SshLaunch {
  std::vector<Host> hosts;
  int least = 1, most = 1;  // nodes of the job
  std::vector<std::string> ssh;
  RemoteMtrun mtrun;
  bool endpoint_given = false;
  int port = 0;  // port of the endpoint
  Order order;   // without settings
  std::vector<DerivedSetting> settings;
};

/// Environment of this mtrun.
struct SshSurroundings {
  EnvironmentMap environment;
  std::string folder = {};  // working folder
  std::string mtrun = {};   // path of its own executable
  uint64_t random = 0;      // source of the job's id and port
};

/// kInvalidArgument names a flag and its error. `hostfile`: the text of the file, if one was given.
absl::StatusOr<SshLaunch> MakeSshLaunch(const Options& options, const std::string& hostfile,
                                        const std::vector<std::string>& args, const SshSurroundings& here);

/// Returns the order for `launch.hosts[host]`; `endpoint`: the host where the nodes meet.
Order OrderFor(const SshLaunch& launch, size_t host, const std::string& endpoint);

}  // namespace mtrun::launcher
