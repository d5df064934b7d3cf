#include "launcher/ssh/ssh_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "base/value_or.h"
#include "base/version.h"
#include "launcher/cli/program.h"
#include "launcher/ssh/remote_job.h"
#include "launcher/ssh/ssh_launch.h"
#include "launcher/ssh/ssh_loop.h"
#include "launcher/workers/guardian.h"

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

// A job that ends notifies its members, and hosts wait for acknowledgements.
constexpr Duration kEndPatience = std::chrono::seconds(20);

/// Returns the working folder by the path that the user took (PWD): the hosts share that path.
absl::StatusOr<std::string> WorkingFolder(const EnvironmentMap& environment) {
  std::error_code error;
  const fs::path real = fs::current_path(error);
  if (error) return ErrnoStatus(error.value(), "find the working folder");
  const std::string named = ValueOr(environment, "PWD");
  return named.starts_with('/') && fs::equivalent(named, real, error) ? named : real.string();
}

/// A pipe is allowed (--hostfile <(...)); a device that never ends is not read for ever.
absl::StatusOr<std::string> ReadHostfile(const std::string& path) {
  constexpr size_t kMaxBytes = 16 << 20;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  MT_ASSIGN_OR_RETURN(std::string text, ReadUpTo(file.get(), path, kMaxBytes + 1));
  if (text.size() <= kMaxBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, " is no list of hosts: it has more than 16 MiB"));
}

absl::StatusOr<SshLaunch> PrepareLaunch(const Options& options, const std::vector<std::string>& args,
                                        const EnvironmentMap& environment) {
  SshSurroundings here = {.environment = environment, .random = RandomBits()};
  MT_ASSIGN_OR_RETURN(here.folder, WorkingFolder(environment));
  MT_ASSIGN_OR_RETURN(here.mtrun, ExecutableFolder());
  here.mtrun += "/mtrun";
  std::string hostfile;
  if (!options.ssh.hostfile.empty()) {
    MT_ASSIGN_OR_RETURN(hostfile, Annotate(ReadHostfile(options.ssh.hostfile), "--hostfile"));
  }
  MT_ASSIGN_OR_RETURN(SshLaunch launch, MakeSshLaunch(options, hostfile, args, here));
  if (FindOnPath(launch.ssh.front(), environment).empty()) {
    return absl::NotFoundError(absl::StrCat("--ssh: there is no program ", launch.ssh.front(),
                                            " here (OpenSSH's client is needed)"));
  }
  // Hosts refuse a token that mtrun did not generate unless configured otherwise. A single-node job may need
  // it for its data.
  const bool needed = !options.token_file.empty() || (launch.most > 1 && !options.insecure);
  absl::StatusOr<std::string> token = LoadToken(
      {options.token_file, /*weak=*/true}, needed ? MissingToken::kMake : MissingToken::kRefuse, environment);
  if (needed) MT_RETURN_IF_ERROR(token.status());
  if (token.ok()) launch.order.token = *std::move(token);
  return launch;
}

absl::StatusOr<UniqueFd> WatchSignals(const SignalPlan& plan) {
  SetSignals(plan);
  sigset_t watched = StopSignals();
  for (const int signal : plan.forward) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  UniqueFd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "watch signals");
  return fd;
}

}  // namespace

absl::StatusOr<int> RunOverSsh(const Options& options, const std::vector<std::string>& args,
                               const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(SshLaunch launch, PrepareLaunch(options, args, environment));
  MT_ASSIGN_OR_RETURN(UniqueFd signals, WatchSignals(options.signals));
  RemoteJob::Config config = {.least = static_cast<size_t>(launch.least),
                              .version = Version(),
                              .stop_patience = options.shutdown_timeout + kEndPatience};
  for (const Host& host : launch.hosts) config.hosts.push_back(host.name);
  EnvironmentMap of_ssh = environment;
  of_ssh.erase(kTokenVariable);
  return RunSshLoop(std::move(launch), std::move(config), std::move(of_ssh), std::move(signals));
}

}  // namespace mtrun::launcher
