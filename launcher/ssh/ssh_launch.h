// What each host is told, from the command line of the mtrun that starts the others. Pure.
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

/// What is the same for all hosts.
struct SshLaunch {
  std::vector<Host> hosts;
  int least = 1, most = 1;  // nodes of the job
  std::vector<std::string> ssh;
  RemoteMtrun mtrun;
  bool endpoint_given = false;
  int port = 0;  // of the endpoint
  Order order;   // without settings
  std::vector<DerivedSetting> settings;
};

/// Where this mtrun stands.
struct SshSurroundings {
  EnvironmentMap environment;
  std::string folder = {};  // the working one
  std::string mtrun = {};   // its own executable
  uint64_t random = 0;      // makes the job's id and its port
};

/// kInvalidArgument: a flag and what is wrong with it. `hostfile`: the text of the file, where one was given.
absl::StatusOr<SshLaunch> MakeSshLaunch(const Options& options, const std::string& hostfile,
                                        const std::vector<std::string>& args, const SshSurroundings& here);

/// The order for `launch.hosts[host]`; `endpoint`: the host at which the nodes meet.
Order OrderFor(const SshLaunch& launch, size_t host, const std::string& endpoint);

}  // namespace mtrun::launcher
