#include "launcher/ssh/ssh_launch.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/token.h"

namespace mtrun::launcher {
namespace {

// As in a Slurm step: below the kernel's ephemeral ports.
constexpr int kFirstPort = 15000, kPorts = 5000;

/// Returns whether a variable affects how mtrun runs a program. All others are the hosts' own.
bool GoesAlong(absl::string_view name) {
  return absl::StartsWith(name, "PET_") || name == "LOGLEVEL" || name == "VIRTUAL_ENV" ||
         name == "PYTHON_EXEC" || name == "MTRUN_TRAINER_PATH";
}

bool IsVariableName(absl::string_view name) {
  const auto fits = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), fits);
}

absl::StatusOr<EnvironmentMap> Exported(const std::vector<std::string>& texts, const EnvironmentMap& here) {
  EnvironmentMap exported;
  for (const auto& [name, value] : here) {
    if (GoesAlong(name)) exported[name] = value;
  }
  for (const std::string& text : texts) {
    const std::string name = text.substr(0, text.find('='));
    const auto found = here.find(name);
    if (!IsVariableName(name) || name == kTokenVariable)
      return absl::InvalidArgumentError(
          absl::StrCat("--export: \"", text, "\" is neither NAME nor NAME=VALUE"));
    if (name.size() < text.size()) {
      exported[name] = text.substr(name.size() + 1);
    } else if (found != here.end()) {
      exported[name] = found->second;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--export: ", name, " is not set here; give it as ", name, "=VALUE"));
    }
  }
  return exported;
}

absl::StatusOr<std::vector<Host>> HostsOf(const SshOptions& ssh, const std::string& hostfile) {
  if (!ssh.hosts.empty()) return Annotate(ParseHosts(ssh.hosts), "--hosts");
  return Annotate(ParseHostfile(hostfile), absl::StrCat("--hostfile ", ssh.hostfile));
}

absl::Status CountNodes(const Options& options, SshLaunch* launch) {
  const int hosts = static_cast<int>(launch->hosts.size());
  launch->least = options.ssh.nodes_given ? options.job.min_nodes : hosts;
  launch->most = options.ssh.nodes_given ? options.job.max_nodes : hosts;
  if (launch->least <= hosts) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--nnodes wants at least ", launch->least, " nodes, but there are ", hosts, " hosts"));
}

}  // namespace

absl::StatusOr<SshLaunch> MakeSshLaunch(const Options& options, const std::string& hostfile,
                                        const std::vector<std::string>& args, const SshSurroundings& here) {
  const SshOptions& ssh = options.ssh;
  SshLaunch launch;
  MT_ASSIGN_OR_RETURN(launch.hosts, HostsOf(ssh, hostfile));
  MT_RETURN_IF_ERROR(CountNodes(options, &launch));
  MT_ASSIGN_OR_RETURN(launch.ssh, Annotate(SplitWords(ssh.program), "--ssh"));
  launch.mtrun = {ssh.mtrun.empty() ? here.mtrun : ssh.mtrun, !ssh.mtrun.empty()};
  launch.endpoint_given = ssh.endpoint_given;
  launch.port = ssh.port != 0 ? ssh.port : kFirstPort + static_cast<int>(here.random % kPorts);
  launch.order.folder = ssh.folder.empty() ? here.folder : ssh.folder;
  launch.order.args = args;
  MT_ASSIGN_OR_RETURN(launch.order.environment, Exported(ssh.exported, here.environment));
  // Hosts start no further hosts and read no token file.
  for (const char* none : {"hosts", "hostfile", "token_file"})
    launch.settings.push_back({none, "", "mtrun over ssh"});
  launch.settings.push_back(
      {"nnodes",
       options.ssh.nodes_given ? absl::StrCat(launch.least, ":", launch.most) : absl::StrCat(launch.least),
       ssh.nodes_given ? "--nnodes" : "the hosts"});
  if (!ssh.id_given)
    launch.settings.push_back({"rdzv_id", absl::StrFormat("ssh-%016x", here.random), "mtrun over ssh"});
  return launch;
}

Order OrderFor(const SshLaunch& launch, size_t host, const std::string& endpoint) {
  Order order = launch.order;
  order.settings = launch.settings;
  order.settings.push_back({"node_rank", absl::StrCat(host), "the order of the hosts"});
  if (!launch.endpoint_given && launch.most > 1)
    order.settings.push_back({"rdzv_endpoint", ToText({endpoint, launch.port}), "the first host"});
  if (launch.hosts[host].workers != 0)
    order.settings.push_back(
        {"nproc_per_node", absl::StrCat(launch.hosts[host].workers), "the host's slots"});
  return order;
}

}  // namespace mtrun::launcher
