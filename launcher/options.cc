#include "launcher/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "launcher/endpoint.h"
#include "launcher/option_table.h"

namespace mtrun::launcher {
namespace {

/// The setting as its user gave it: "--nnodes", "PET_NNODES" or "nnodes in the --config file".
std::string Named(const Settings& settings, const std::string& name) {
  switch (settings.SourceOf(name)) {
    case SettingSource::kEnvironment:
      return absl::StrCat("PET_", absl::AsciiStrToUpper(name));
    case SettingSource::kFile:
      return absl::StrCat(name, " in ", settings.Text("config"));
    default:
      return absl::StrCat("--", name);
  }
}

absl::Status NotAllowed(const Settings& settings, const std::string& name, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(Named(settings, name), ": \"", settings.Text(name),
                                                 "\" is not allowed; it takes ", allowed));
}

absl::Status ReadNodes(const Settings& settings, Options* options) {
  const absl::Status wrong = NotAllowed(settings, "nnodes", "N or MIN:MAX with 1 <= MIN <= MAX");
  const std::vector<std::string> parts = absl::StrSplit(settings.Text("nnodes"), ':');
  if (parts.size() > 2) return wrong;
  rendezvous::JobSettings& job = options->job;
  if (!absl::SimpleAtoi(parts.front(), &job.min_nodes) || !absl::SimpleAtoi(parts.back(), &job.max_nodes))
    return wrong;
  return job.min_nodes >= 1 && job.min_nodes <= job.max_nodes ? absl::OkStatus() : wrong;
}

absl::Status ReadWorkers(const Settings& settings, const MachineFacts& machine, Options* options) {
  const std::string text = settings.Text("nproc_per_node");
  if (text == "cpu" || (text == "auto" && machine.gpus == 0)) {
    options->workers = machine.cpus;
  } else if (text == "gpu" || text == "auto") {
    options->workers = machine.gpus;
    if (machine.gpus == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(settings, "nproc_per_node"),
                       ": \"gpu\" needs an NVIDIA GPU and none is visible here; use N, auto or cpu"));
    }
  } else if (!absl::SimpleAtoi(text, &options->workers) || options->workers < 1) {
    return NotAllowed(settings, "nproc_per_node", "a number from 1, auto, cpu or gpu");
  }
  return absl::OkStatus();
}

absl::Status ReadConfPair(absl::string_view key, absl::string_view value, Options* options) {
  const auto wrong = [&](absl::string_view allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, "=\"", value, "\" is not allowed; it takes ", allowed));
  };
  const std::map<std::string, Duration*> seconds = {{"join_timeout", &options->job.join_timeout},
                                                    {"last_call_timeout", &options->job.last_call},
                                                    {"keep_alive_interval", &options->job.heartbeat_interval},
                                                    {"reconnect_grace", &options->job.reconnect_grace},
                                                    {"reconnect_timeout", &options->reconnect_timeout}};
  // torchrun's other keys bound its store's operations; here nothing waits for them.
  const std::vector<std::string> ignored = {"timeout", "close_timeout", "heartbeat_timeout", "read_timeout",
                                            "store_type"};
  if (const auto found = seconds.find(std::string(key)); found != seconds.end()) {
    double number = 0;
    const bool zero_is_fine = key == "last_call_timeout" || key == "reconnect_timeout";
    if (!absl::SimpleAtod(value, &number) || !(number >= 0 && number < 1e8) ||
        (number == 0 && !zero_is_fine)) {
      return wrong(zero_is_fine ? "seconds, 0 or more" : "seconds, more than 0");
    }
    *found->second = FromSeconds(number);
    return absl::OkStatus();
  }
  if (key == "keep_alive_max_attempt") {
    int& missed = options->job.heartbeats_missed;
    return absl::SimpleAtoi(value, &missed) && missed >= 1 ? absl::OkStatus() : wrong("a number from 1");
  }
  if (key == "is_host" || key == "hold_port") {
    bool truth = false;
    if (!absl::SimpleAtob(value, &truth)) return wrong("true or false");
    if (key == "is_host") options->is_host = truth;
    if (key == "hold_port") options->hold_port = truth;
    return absl::OkStatus();
  }
  if (std::find(ignored.begin(), ignored.end(), key) != ignored.end()) return absl::OkStatus();
  std::vector<std::string> names = {"keep_alive_max_attempt", "is_host", "hold_port"};
  for (const auto& [name, unused] : seconds) names.push_back(name);
  std::sort(names.begin(), names.end());
  const std::string near = NearestName({key.data(), key.size()}, names);
  return absl::InvalidArgumentError(absl::StrCat("unknown key \"", key, "\"",
                                                 near.empty() ? "" : "; did you mean " + near + "?",
                                                 " (keys: ", absl::StrJoin(names, ", "), ")"));
}

absl::Status ReadConf(const Settings& settings, Options* options) {
  for (absl::string_view pair : absl::StrSplit(settings.Text("rdzv_conf"), ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return NotAllowed(settings, "rdzv_conf", "KEY=VALUE,KEY=VALUE");
    }
    const absl::Status read =
        ReadConfPair(absl::StripAsciiWhitespace(parts[0]), absl::StripAsciiWhitespace(parts[1]), options);
    MT_RETURN_IF_ERROR(Annotate(read, Named(settings, "rdzv_conf")));
  }
  return absl::OkStatus();
}

/// --redirects and --tee: "3", or "0:1,12:2" per local rank.
absl::Status ReadStreams(const Settings& settings, const std::string& name, std::map<int, int>* streams) {
  const std::string text = settings.Text(name);
  if (text.empty()) return absl::OkStatus();
  const absl::Status wrong = NotAllowed(settings, name, "0, 1, 2 or 3, or LOCAL_RANK:N,...");
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ':');
    int rank = -1, what = 0;
    if (parts.size() > 2 || !absl::SimpleAtoi(parts.back(), &what) || what < 0 || what > 3) return wrong;
    if (parts.size() == 2 && (!absl::SimpleAtoi(parts.front(), &rank) || rank < 0)) return wrong;
    if (parts.size() == 1 && text.find(',') != std::string::npos) return wrong;
    (*streams)[rank] = what;
  }
  return absl::OkStatus();
}

absl::Status ReadEndpoint(const Settings& settings, Options* options) {
  const bool alone = options->job.max_nodes == 1;
  const bool has_master = settings.IsSet("master_addr") || settings.IsSet("master_port");
  options->standalone =
      settings.Bool("standalone") || (alone && !settings.IsSet("rdzv_endpoint") && !has_master);
  if (settings.Bool("standalone") && !alone) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--standalone runs one node, but ", Named(settings, "nnodes"), " is ", settings.Text("nnodes")));
  }
  if (options->standalone) {
    options->endpoint = "127.0.0.1:0";
    return absl::OkStatus();
  }
  std::string name = "rdzv_endpoint";
  std::string text = settings.Text(name);
  if (text.empty() && has_master) {
    name = settings.IsSet("master_addr") ? "master_addr" : "master_port";
    const std::string host = settings.IsSet("master_addr") ? settings.Text("master_addr") : "127.0.0.1";
    text =
        ToText({host, settings.IsSet("master_port") ? static_cast<int>(settings.Int("master_port")) : 29500});
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named(settings, "nnodes"), " ", settings.Text("nnodes"),
                     " needs --rdzv_endpoint HOST:PORT, the same on all nodes (HOST is one of them)"));
  }
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) return Annotate(endpoint.status(), Named(settings, name));
  if (endpoint->port == 0 && !(alone && IsLoopback(endpoint->host))) {
    return NotAllowed(settings, name, "a port from 1 to 65535 (port 0 only for one node on localhost)");
  }
  options->endpoint = ToText(*endpoint);
  return absl::OkStatus();
}

absl::Status ReadEntry(const Settings& settings, std::vector<std::string> rest, Options* options) {
  EntryPoint& entry = options->entry;
  entry.trainer = settings.Text("trainer");
  entry.module = settings.Bool("module");
  entry.no_python = settings.Bool("no_python");
  entry.words = std::move(rest);
  if (entry.module && entry.no_python)
    return absl::InvalidArgumentError("--module and --no_python exclude each other");
  if (!entry.trainer.empty()) {
    if (entry.module || entry.no_python) {
      return absl::InvalidArgumentError(
          "--trainer names a program of mtrun's own; --module and --no_python do not go with it");
    }
    // One file serves both; a --config among the trainer's own flags comes later and wins.
    if (settings.IsSet("config"))
      entry.words.insert(entry.words.begin(), {"--config", settings.Text("config")});
    if (settings.SourceOf("role") == SettingSource::kDefault) options->role = entry.trainer;
    return absl::OkStatus();
  }
  if (entry.words.empty()) {
    return absl::InvalidArgumentError(
        "nothing to run: give a program and its arguments, or --trainer NAME (see --help)");
  }
  return absl::OkStatus();
}

/// Length of the part of `args` that is mtrun's when `--trainer NAME` ends it; all of `args` otherwise.
size_t OwnArguments(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(args[i], absl::MaxSplits('=', 1));
    if (parts[0].size() < 4 || !absl::StartsWith("--trainer", parts[0])) continue;
    const size_t end = std::min(args.size(), i + (parts.size() == 2 ? 1 : 2));
    // A word that looks like --trainer behind a program belongs to that program.
    Settings trial("mtrun", OptionTable());
    const std::vector<std::string> before(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(i));
    const absl::StatusOr<std::vector<std::string>> rest = trial.ParseFlags(before, true);
    return rest.ok() && rest->empty() ? end : args.size();
  }
  return args.size();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine, const std::vector<std::string>& trainers) {
  Settings settings("mtrun", OptionTable());
  const auto own_end = args.begin() + static_cast<std::ptrdiff_t>(OwnArguments(args));
  MT_ASSIGN_OR_RETURN(std::vector<std::string> rest, settings.ParseFlags({args.begin(), own_end}, true));
  rest.insert(rest.end(), own_end, args.end());

  Options options;
  if (settings.Bool("help") || settings.Bool("version")) {
    options.act = settings.Bool("help") ? Options::Act::kHelp : Options::Act::kVersion;
    return options;
  }
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, "PET_"));
  if (const auto grace = environment.find("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
      grace != environment.end() && settings.SourceOf("shutdown_timeout") == SettingSource::kDefault) {
    MT_RETURN_IF_ERROR(settings.ApplyEnvironment({{"PET_SHUTDOWN_TIMEOUT", grace->second}}, "PET_"));
  }
  if (settings.IsSet("config"))
    MT_RETURN_IF_ERROR(settings.ApplyYaml(settings.Text("config"), "mtrun", trainers));

  MT_RETURN_IF_ERROR(ReadNodes(settings, &options));
  MT_RETURN_IF_ERROR(ReadWorkers(settings, machine, &options));
  MT_RETURN_IF_ERROR(ReadConf(settings, &options));
  MT_RETURN_IF_ERROR(ReadEndpoint(settings, &options));
  MT_RETURN_IF_ERROR(ReadStreams(settings, "redirects", &options.redirects));
  MT_RETURN_IF_ERROR(ReadStreams(settings, "tee", &options.tee));
  options.role = settings.Text("role");
  MT_RETURN_IF_ERROR(ReadEntry(settings, std::move(rest), &options));
  options.run_id_given = settings.IsSet("rdzv_id");
  if (options.run_id_given) options.job.job_id = settings.Text("rdzv_id");
  options.job.max_restarts = static_cast<int>(settings.Int("max_restarts"));
  if (settings.IsSet("node_rank")) options.node_rank = static_cast<int>(settings.Int("node_rank"));
  options.local_addr = settings.Text("local_addr");
  options.insecure = settings.Bool("insecure");
  options.log_dir = settings.Text("log_dir");
  options.shutdown_timeout = FromSeconds(settings.Double("shutdown_timeout"));
  return options;
}

OutputPlan Options::OutputOf(int local_rank) const {
  const auto mask = [&](const std::map<int, int>& streams) {
    if (const auto own = streams.find(local_rank); own != streams.end()) return own->second;
    const auto all = streams.find(-1);
    return all == streams.end() ? 0 : all->second;
  };
  const int file_only = mask(redirects) & ~mask(tee);
  OutputPlan plan;
  plan.out = {log_dir != "/dev/null", (file_only & 1) == 0};
  plan.err = {log_dir != "/dev/null", (file_only & 2) == 0};
  return plan;
}

std::string HelpText() {
  return absl::StrCat(
      "usage: mtrun [flags] PROGRAM [arguments]\n"
      "       mtrun [flags] -m MODULE [arguments]\n"
      "       mtrun [flags] --trainer NAME [the trainer's flags]\n\n"
      "Starts the workers of this node and keeps them one job with those of the other nodes. Every flag may "
      "also be set\n"
      "as PET_<NAME> or in the mtrun: section of --config; dashes and underscores are alike.\n",
      Settings("mtrun", OptionTable()).Help());
}

int VisibleGpus(int devices, const EnvironmentMap& environment) {
  const auto found = environment.find("CUDA_VISIBLE_DEVICES");
  if (found == environment.end()) return devices;
  int visible = 0;
  for (absl::string_view entry : absl::StrSplit(found->second, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    int index = 0;
    const bool number = absl::SimpleAtoi(entry, &index);
    if (entry.empty() || (number && (index < 0 || index >= devices))) break;
    ++visible;
  }
  return std::min(visible, devices);
}

}  // namespace mtrun::launcher
