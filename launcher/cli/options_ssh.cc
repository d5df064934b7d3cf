// Options about machines on which mtrun is started by ssh.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/cli/options_reading.h"

namespace mtrun::launcher {
namespace {

absl::Status CheckHosts(const Settings& settings, const std::vector<std::string>& rest) {
  if (!settings.Text("hosts").empty() && !settings.Text("hostfile").empty()) {
    return absl::InvalidArgumentError(absl::StrCat(Named(settings, "hosts"), " and ",
                                                   Named(settings, "hostfile"),
                                                   " both name hosts: give one of them"));
  }
  const std::string name = settings.Text("hosts").empty() ? "hostfile" : "hosts";
  if (settings.Bool("standalone")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--standalone runs this node alone, but ", Named(settings, name), " names hosts"));
  }
  if (rest.empty() && !RunsTrainer(settings)) {
    return absl::InvalidArgumentError(
        "nothing to run: give a program and its arguments, or --trainer NAME (see --help)");
  }
  return absl::OkStatus();
}

}  // namespace

bool NamesHosts(const Settings& settings) {
  return !settings.Text("hosts").empty() || !settings.Text("hostfile").empty();
}

absl::Status ReadHosts(const OptionContext& context, Options* options) {
  const auto& [hosts, settings, environment, machine, rest] = context;
  if (!NamesHosts(settings)) return absl::OkStatus();
  MT_RETURN_IF_ERROR(CheckHosts(settings, rest));
  const std::pair<std::string, OptionReader> readers[] = {
      {"nnodes", ReadNodes}, {"shutdown_timeout", ReadShutdownTimeout}, {"signals_to_handle", ReadSignals}};
  for (const auto& [name, read] : readers)
    MT_RETURN_IF_ERROR(read({name, settings, environment, machine, rest}, options));
  options->act = Options::Act::kSsh;
  options->insecure = settings.Bool("insecure");
  options->token_file = settings.Text("token_file");
  SshOptions& ssh = options->ssh;
  ssh.hosts = settings.Text("hosts");
  ssh.hostfile = settings.Text("hostfile");
  ssh.program = settings.Text("ssh");
  ssh.exported = SplitTexts(settings.Text("export"));
  ssh.folder = settings.Text("ssh_folder");
  ssh.mtrun = settings.Text("ssh_mtrun");
  ssh.nodes_given = IsGiven(settings, "nnodes");
  ssh.endpoint_given = !settings.Text("rdzv_endpoint").empty() || !settings.Text("master_addr").empty();
  ssh.id_given = IsGiven(settings, "rdzv_id") && !settings.Text("rdzv_id").empty();
  if (settings.IsSet("master_port")) ssh.port = static_cast<int>(settings.Int("master_port"));
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
