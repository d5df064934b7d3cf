#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/link_zone.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/value_or.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/rdzv_conf.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::launcher {
namespace {

constexpr int kEtcdPort = 2379;
constexpr int kStaticPort = 29500;
constexpr Duration kAloneHeartbeat = std::chrono::hours(1);

/// Checks that a lease outlasts the silence after which a node is lost: a live node can renew it in time.
absl::Status CheckLease(bool given, Options* options) {
  rendezvous::JobSettings& job = options->job;
  const Duration lost = job.LostAfter();
  if (!given) job.fence_timeout = std::max(job.fence_timeout, 2 * lost);
  if (options->standalone || job.fence_timeout == Duration::zero() || job.fence_timeout > lost)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "fence_timeout is ", HumanDuration(job.fence_timeout), ", but a silent node counts as lost only after ",
      HumanDuration(lost), " (keep_alive_interval x keep_alive_max_attempt): give a longer one"));
}

/// Checks that the wait ends before join_timeout, at which a job that has not started ends.
absl::Status CheckColdStartWait(const rendezvous::JobSettings& job) {
  if (job.cold_start_wait < job.join_timeout) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cold_start_wait is ", HumanDuration(job.cold_start_wait), ", but a job that has not begun after ",
      HumanDuration(job.join_timeout), " (join_timeout) ends: give a longer join_timeout"));
}

absl::Status ReadConf(const Settings& settings, Options* options) {
  bool connect_given = false, fence_given = false;
  for (absl::string_view pair : absl::StrSplit(settings.Text("rdzv_conf"), ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty())
      return NotAllowed(settings, "rdzv_conf", "KEY=VALUE,KEY=VALUE");
    const absl::string_view key = absl::StripAsciiWhitespace(parts[0]);
    connect_given = connect_given || key == "read_timeout";
    fence_given = fence_given || key == "fence_timeout";
    const absl::Status read = ReadConfPair(key, absl::StripAsciiWhitespace(parts[1]),
                                           settings.Text("rdzv_backend") == "static", options);
    MT_RETURN_IF_ERROR(Annotate(read, Named(settings, "rdzv_conf")));
  }
  if (!connect_given) options->connect_timeout = options->job.join_timeout;
  MT_RETURN_IF_ERROR(Annotate(CheckColdStartWait(options->job), Named(settings, "rdzv_conf")));
  return Annotate(CheckLease(fence_given, options), Named(settings, "rdzv_conf"));
}

absl::Status ReadBackend(const Settings& settings, Options* options) {
  const std::string name = settings.Text("rdzv_backend");
  rendezvous::JobSettings& job = options->job;
  options->may_be_etcd = name == "etcd" || name == "etcd-v2";
  if (name == "static" && job.min_nodes != job.max_nodes) {
    options->notes.push_back(absl::StrCat("--rdzv_backend static starts with exactly ", job.max_nodes,
                                          " nodes, not ", settings.Text("nnodes")));
    job.min_nodes = job.max_nodes;
  }
  if (name == "static" || name == "mtrun" || name == "c10d" || options->may_be_etcd) return absl::OkStatus();
  return NotAllowed(
      settings, "rdzv_backend",
      "mtrun, c10d, static, etcd or etcd-v2 (back-ends registered in Python cannot be used here; "
      "--rdzv_backend c10d needs nothing but --rdzv_endpoint)");
}

/// Reads "a:29400,b:29400": possible locations of the job's service; it starts at the first.
absl::Status ReadEndpointList(const Settings& settings, const std::string& text, Options* options) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::string one(absl::StripAsciiWhitespace(item));
    MT_ASSIGN_OR_RETURN(const Endpoint endpoint,
                        Annotate(ParseEndpoint(one), Named(settings, "rdzv_endpoint")));
    MT_RETURN_IF_ERROR(Annotate(CheckZone(endpoint), Named(settings, "rdzv_endpoint")));
    if (endpoint.port == 0)
      return NotAllowed(settings, "rdzv_endpoint", "ports from 1 to 65535 in a list of endpoints");
    options->job.endpoints.push_back(ToText(endpoint));
  }
  options->endpoint = options->job.endpoints.front();
  return absl::OkStatus();
}

/// Returns whether the endpoint's port is 0, any free one: no other node can learn it, so this one runs
/// alone.
bool IsOnFreePort(const Settings& settings) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(settings.Text("rdzv_endpoint"));
  return endpoint.ok() && endpoint->port == 0;
}

/// Configures a single node without rendezvous; only MASTER_PORT matters of the port settings.
bool ReadStandalone(const Settings& settings, Options* options) {
  const bool alone = options->job.max_nodes == 1, told = settings.Bool("standalone");
  const bool on_free_port = !told && options->job.min_nodes == 1 && IsOnFreePort(settings);
  options->standalone = told || on_free_port || (alone && settings.Text("rdzv_endpoint").empty());
  if (!options->standalone) return false;
  options->endpoint = "127.0.0.1:0";
  if (!alone) {
    options->notes.push_back(absl::StrCat(
        told ? "--standalone" : Named(settings, "rdzv_endpoint") + " " + settings.Text("rdzv_endpoint"),
        " runs this node alone, not ", Named(settings, "nnodes"), " ", settings.Text("nnodes")));
    options->job.max_nodes = 1;
  }
  // As under torchrun, several jobs at port 0 never compete for a port.
  if (!on_free_port && settings.IsSet("master_port"))
    options->master_port = static_cast<int>(settings.Int("master_port"));
  if (!settings.Text("http").empty()) {
    // The web page needs a real service, on a free port of this machine.
    options->standalone = false;
    options->is_host = true;
    return true;
  }
  // No other node can fall silent: heartbeats would only wake the agent.
  options->job.heartbeat_interval = kAloneHeartbeat;
  if (!on_free_port) options->master_addr = settings.Text("master_addr");
  return true;
}

absl::Status ReadEndpoint(const Settings& settings, Options* options) {
  if (settings.Bool("standalone") && options->job.min_nodes > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--standalone runs one node, but ", Named(settings, "nnodes"), " is ", settings.Text("nnodes")));
  }
  if (ReadStandalone(settings, options)) return absl::OkStatus();
  std::string name = "rdzv_endpoint";
  std::string text = settings.Text(name);
  // torchrun's default back-end, static, meets at 127.0.0.1:29500 by default.
  const std::string backend = settings.Text("rdzv_backend");
  const bool by_default = settings.SourceOf("rdzv_backend") == SettingSource::kDefault || backend == "static";
  if (text.empty() && by_default && !settings.IsSet("master_addr") && !settings.IsSet("master_port"))
    options->notes.push_back(
        absl::StrCat("no --rdzv_endpoint: the nodes meet at 127.0.0.1:", kStaticPort,
                     " of this machine; nodes elsewhere need --master_addr with its address"));
  if (text.empty() && (by_default || settings.IsSet("master_addr") || settings.IsSet("master_port"))) {
    name = settings.IsSet("master_addr") ? "master_addr" : "master_port";
    const std::string host = settings.IsSet("master_addr") ? settings.Text("master_addr") : "127.0.0.1";
    text = ToText(
        {host, settings.IsSet("master_port") ? static_cast<int>(settings.Int("master_port")) : kStaticPort});
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named(settings, "nnodes"), " ", settings.Text("nnodes"),
                     " needs --rdzv_endpoint HOST:PORT, the same on all nodes (HOST is one of them)"));
  }
  if (text.find(',') != std::string::npos) return ReadEndpointList(settings, text, options);
  const int port = options->may_be_etcd ? kEtcdPort : kDefaultEndpointPort;
  MT_ASSIGN_OR_RETURN(Endpoint endpoint, Annotate(ParseEndpoint(text, port), Named(settings, name)));
  MT_RETURN_IF_ERROR(Annotate(CheckZone(endpoint), Named(settings, name)));
  if (endpoint.port == 0)
    return NotAllowed(settings, name, "a port from 1 to 65535 (port 0, any free one, is for a single node)");
  // Nodes elsewhere may be told another address of this machine. Only the token protects the service there.
  options->serves_all = !IsLoopback(endpoint.host, NamesAsTheySay) ||
                        (options->job.max_nodes > 1 && !settings.Bool("insecure"));
  options->told_every_address = IsEveryAddress(endpoint.host);
  if (options->told_every_address) endpoint.host = endpoint.host == "0.0.0.0" ? "127.0.0.1" : "localhost";
  options->endpoint = ToText(endpoint);
  options->meets_at_master_port = name != "rdzv_endpoint" || backend == "static";
  return absl::OkStatus();
}

/// Returns an empty list if one of them cannot be parsed.
std::vector<Endpoint> EndpointsOf(const Options& options) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text :
       options.job.endpoints.empty() ? std::vector<std::string>{options.endpoint} : options.job.endpoints) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) return {};
    endpoints.push_back(*endpoint);
  }
  return endpoints;
}

}  // namespace

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

bool IsOnLoopback(const Options& options, const Resolver& resolve) {
  return !options.told_every_address && AreLoopback(EndpointsOf(options), resolve);
}

absl::Status ReadRendezvous(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  MT_RETURN_IF_ERROR(ReadBackend(settings, options));
  options->job.heartbeat_interval = rendezvous::HeartbeatInterval(options->job.max_nodes);
  MT_RETURN_IF_ERROR(ReadEndpoint(settings, options));
  MT_RETURN_IF_ERROR(ReadConf(settings, options));
  // An empty id, from an unset variable, means none.
  const std::string run_id = settings.Text("rdzv_id");
  options->run_id_given = !run_id.empty() && settings.SourceOf("rdzv_id") != SettingSource::kDefault;
  if (!run_id.empty()) options->job.job_id = run_id;
  return CheckRunId(settings);
}

absl::Status CheckRunId(const Settings& settings) {
  const std::string run_id = settings.Text("rdzv_id");
  if (run_id.size() <= rendezvous::kMaxName && IsPlainText(run_id)) return absl::OkStatus();
  // Printed unescaped, its control characters would reach the terminal.
  return absl::InvalidArgumentError(absl::StrCat(Named(settings, "rdzv_id"), ": \"", absl::CHexEscape(run_id),
                                                 "\" is not allowed; it takes up to ", rendezvous::kMaxName,
                                                 " bytes of UTF-8 without control characters"));
}

absl::Status ReadStore(const OptionContext& context, Options* options) {
  options->store = context.settings.Text("store");
  // torchrun's variable for the same choice.
  const bool disabled = ValueOr(context.environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1";
  if (disabled && context.settings.SourceOf("store") == SettingSource::kDefault) options->store = "rank0";
  return absl::OkStatus();
}

absl::Status ReadPortRange(const OptionContext& context, Options* options) {
  MT_ASSIGN_OR_RETURN(options->port_range, Annotate(ParsePortRange(context.settings.Text("port_range")),
                                                    Named(context.settings, "port_range")));
  // Another listener of this node could otherwise take these ports first.
  std::vector<int> kept = {options->master_port};
  for (const Endpoint& endpoint : EndpointsOf(*options)) kept.push_back(endpoint.port);
  for (const int port : kept) {
    if (!options->port_range.Contains(port)) continue;
    return NotAllowed(context.settings, "port_range",
                      absl::StrCat("ports without ", port, ", which is the rendezvous's or MASTER_PORT"));
  }
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
