#include "rendezvous/client/status_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "nlohmann/json.hpp"
#include "rendezvous/client/unary_call.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {
namespace {

std::string Ranks(const NodeView& node) {
  if (node.first_rank < 0) return "-";
  if (node.workers == 1) return absl::StrCat(node.first_rank);
  return absl::StrCat(node.first_rank, "-", node.first_rank + node.workers - 1);
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppendFormat(&line, " %-*s", static_cast<int>(widths[i]), row[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

bool IsMember(const NodeView& node) { return node.first_rank >= 0; }

/// Returns "running for 4 min 05 s: generation 3 with 2 nodes (of 1 to 4) and 8 workers, 1 node waits".
std::string Heading(const JobView& job) {
  int64_t members = 0, workers = 0;
  for (const NodeView& node : job.nodes) {
    if (IsMember(node)) ++members, workers += node.workers;
  }
  const int64_t waiting = static_cast<int64_t>(job.nodes.size()) - members;
  std::string text = absl::StrCat(job.phase, " for ", HumanDuration(job.phase_age), ": ");
  if (job.generation.number > 0) absl::StrAppend(&text, "generation ", job.generation.number, " with ");
  const JobSettings& wanted = job.settings;
  absl::StrAppend(&text, Counted(members, "node"), " (of ", wanted.min_nodes,
                  wanted.min_nodes == wanted.max_nodes ? "" : absl::StrCat(" to ", wanted.max_nodes),
                  ") and ", Counted(workers, "worker"));
  if (waiting > 0) absl::StrAppend(&text, ", ", Counted(waiting, "node"), waiting == 1 ? " waits" : " wait");
  return text;
}

std::string JobTable(const JobView& job) {
  std::string text = absl::StrCat("job ", job.settings.job_id, ": ", Heading(job), "\n");
  // More failures than the budget: steps have given some back.
  const bool beyond = job.restart_count > job.settings.max_restarts;
  absl::StrAppend(&text, "  restarts ", job.restart_count, beyond ? ", of which at most " : " of ",
                  job.settings.max_restarts, beyond ? " count" : "", "\n");
  if (!job.reason.empty()) absl::StrAppend(&text, "  last change: ", job.reason, "\n");
  if (!job.authority) absl::StrAppend(&text, "  this service has no quorum; membership is frozen\n");
  std::vector<std::vector<std::string>> rows = {
      {"node", "host", "address", "state", "workers", "ranks", "silent", "main loop"}};
  for (const NodeView& node : job.nodes) {
    rows.push_back({node.node_rank < 0 ? "-" : absl::StrCat(node.node_rank),
                    node.host.empty() ? node.node_id : node.host, node.address, node.state,
                    absl::StrCat(node.workers), Ranks(node), HumanDuration(node.silent_for),
                    HumanDuration(node.main_loop_age)});
  }
  absl::StrAppend(&text, Table(rows));
  for (const NodeView& node : job.nodes) {
    if (node.note.empty()) continue;
    absl::StrAppend(&text, "  ", node.note, " (reported ", HumanDuration(node.note_age), " ago)\n");
  }
  return text;
}

nlohmann::json NodeJson(const NodeView& node) {
  nlohmann::json json = {{"node_id", node.node_id},
                         {"host", node.host},
                         {"address", node.address},
                         {"state", node.state},
                         {"workers", node.workers},
                         {"silent_s", ToSeconds(node.silent_for)},
                         {"main_loop_age_s", ToSeconds(node.main_loop_age)},
                         {"note", node.note}};
  json["node_rank"] = json["first_rank"] = nullptr;
  if (IsMember(node)) json["node_rank"] = node.node_rank, json["first_rank"] = node.first_rank;
  return json;
}

nlohmann::json JobJson(const JobView& job) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const NodeView& node : job.nodes) nodes.push_back(NodeJson(node));
  const JobSettings& wanted = job.settings;
  return {{"job", wanted.job_id},
          {"phase", job.phase},
          {"since_s", ToSeconds(job.phase_age)},
          {"generation", job.generation.number},
          {"last_change", job.reason},
          {"restarts", job.restart_count},
          {"max_restarts", wanted.max_restarts},
          {"min_nodes", wanted.min_nodes},
          {"max_nodes", wanted.max_nodes},
          {"may_regroup", job.authority},
          {"nodes", nodes}};
}

/// Reasons may contain a program's bytes, so dumping the result must replace those that are not UTF-8.
nlohmann::json AllJson(const ServiceStatus& status) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const JobView& job : status.jobs) jobs.push_back(JobJson(job));
  nlohmann::json elsewhere = nlohmann::json::array();
  for (const auto& [job_id, endpoint] : status.elsewhere)
    elsewhere.push_back({{"job", job_id}, {"endpoint", endpoint}});
  return {{"uptime_s", ToSeconds(status.uptime)}, {"jobs", jobs}, {"elsewhere", elsewhere}};
}

}  // namespace

absl::StatusOr<uint64_t> ReadServiceId(const std::string& endpoint, bool insecure, const std::string& token,
                                       Duration timeout) {
  MT_ASSIGN_OR_RETURN(const wire::IdentifyReply reply,
                      (Ask<wire::IdentifyRequest, wire::IdentifyReply>(endpoint, insecure, token, timeout, {},
                                                                       &wire::Rendezvous::Stub::Identify)));
  return reply.service_id();
}

absl::Status CheckPlainText(const std::string& endpoint, Duration timeout) {
  // Tries a random token: a service that refuses it in a TLS handshake speaks TLS.
  if (!absl::IsUnauthenticated(ReadServiceId(endpoint, false, MakeToken(), timeout).status()))
    return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the service at ", endpoint,
                                                 " expects TLS with the cluster's token, but this end uses "
                                                 "plain text (--insecure): use the same at both ends"));
}

ServiceStatus DecodeStatus(const wire::StatusReply& reply) {
  ServiceStatus status;
  status.uptime = Duration(reply.uptime_ns());
  status.wall_clock_ns = reply.wall_clock_ns();
  for (const wire::JobStatus& job : reply.jobs()) status.jobs.push_back(DecodeJobView(job));
  for (const wire::ForgottenJob& job : reply.forgotten()) status.forgotten[job.job_id()] = job.last_number();
  for (const wire::EndedRun& run : reply.ended())
    status.ended[run.job_id()].push_back({run.incarnation(), run.last_number(), run.success()});
  for (const wire::JobPlace& place : reply.elsewhere()) status.elsewhere[place.job_id()] = place.endpoint();
  return status;
}

bool AllEnded(const ServiceStatus& status) {
  return std::all_of(status.jobs.begin(), status.jobs.end(),
                     [](const JobView& job) { return job.phase == "ended"; });
}

absl::StatusOr<ServiceStatus> ReadStatus(const std::string& endpoint, bool insecure, const std::string& token,
                                         Duration timeout, const std::string& job_id,
                                         const PeerService& asks) {
  MT_ASSIGN_OR_RETURN(
      const wire::StatusReply reply,
      (Ask<wire::StatusRequest, wire::StatusReply>(
          endpoint, insecure, token, timeout, EncodeAsking(job_id, asks), &wire::Rendezvous::Stub::Status)));
  return DecodeStatus(reply);
}

absl::StatusOr<ServiceStatus> AskForStatus(const std::string& where, const Credentials& credentials) {
  MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(where));
  MT_ASSIGN_OR_RETURN(const std::string token, TokenOf(credentials));
  return ReadStatus(ToText(endpoint), credentials.insecure, token, kAnswerPatience);
}

std::string StatusTable(const ServiceStatus& status) {
  if (status.jobs.empty() && status.elsewhere.empty())
    return absl::StrCat("no job: the service is up for ", HumanDuration(status.uptime),
                        " and no node has joined it\n");
  std::string text = absl::StrCat("service up for ", HumanDuration(status.uptime), ", ",
                                  Counted(status.jobs.size(), "job"), "\n");
  for (const JobView& job : status.jobs) absl::StrAppend(&text, "\n", JobTable(job));
  for (const auto& [job_id, endpoint] : status.elsewhere)
    absl::StrAppend(&text, "\njob ", job_id, " has moved to ", endpoint, "\n");
  return text;
}

std::string StatusJson(const ServiceStatus& status) {
  return AllJson(status).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string StatusLine(const ServiceStatus& status) {
  return AllJson(status).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace mtrun::rendezvous
