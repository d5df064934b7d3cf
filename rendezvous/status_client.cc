#include "rendezvous/status_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "rendezvous/codec.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/token.h"
#include "rendezvous/transport.h"

namespace mtrun::rendezvous {
namespace {

/// Makes one unary call; `call` is a member function of the stub.
template <typename Reply, typename Request, typename Call>
absl::StatusOr<Reply> Ask(const std::string& endpoint, bool insecure, const std::string& token,
                          Duration patience, Call call) {
  MT_ASSIGN_OR_RETURN(const auto channel, MakeChannel(endpoint, insecure, token));
  const auto stub = wire::Rendezvous::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::microseconds>(patience));
  Request request;
  Reply reply;
  const grpc::Status status = (stub.get()->*call)(&context, request, &reply);
  if (status.ok()) return reply;
  MT_RETURN_IF_ERROR(JudgeCredentials(endpoint, status, insecure));
  if (insecure && MayExpectTls(status)) MT_RETURN_IF_ERROR(CheckPlainText(endpoint, patience));
  return absl::UnavailableError(
      absl::StrCat("no rendezvous service answers at ", endpoint, ": ", status.error_message()));
}

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

std::string JobTable(const JobView& job) {
  std::string text =
      absl::StrFormat("job %s: %s, generation %d, nodes %d to %d, restarts %d of %d\n", job.settings.job_id,
                      job.phase, job.generation.number, job.settings.min_nodes, job.settings.max_nodes,
                      job.restart_count, job.settings.max_restarts);
  if (!job.reason.empty()) absl::StrAppend(&text, "  ", job.reason, "\n");
  std::vector<std::vector<std::string>> rows = {
      {"node", "host", "address", "state", "ranks", "silent", "main loop"}};
  for (const NodeView& node : job.nodes) {
    rows.push_back({node.node_rank < 0 ? "-" : absl::StrCat(node.node_rank),
                    node.host.empty() ? node.node_id : node.host, node.address, node.state, Ranks(node),
                    HumanDuration(node.silent_for), HumanDuration(node.main_loop_age)});
  }
  return text + Table(rows);
}

}  // namespace

absl::StatusOr<uint64_t> ReadServiceId(const std::string& endpoint, bool insecure, const std::string& token,
                                       Duration patience) {
  using Call = grpc::Status (wire::Rendezvous::Stub::*)(grpc::ClientContext*, const wire::IdentifyRequest&,
                                                        wire::IdentifyReply*);
  MT_ASSIGN_OR_RETURN(
      const wire::IdentifyReply reply,
      (Ask<wire::IdentifyReply, wire::IdentifyRequest>(
          endpoint, insecure, token, patience, static_cast<Call>(&wire::Rendezvous::Stub::Identify))));
  return reply.service_id();
}

absl::Status CheckPlainText(const std::string& endpoint, Duration patience) {
  // A token that nobody has: whoever refuses it in a TLS handshake speaks TLS.
  const std::string nobodys(kMinTokenCharacters, '-');
  if (!absl::IsUnauthenticated(ReadServiceId(endpoint, false, nobodys, patience).status()))
    return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the service at ", endpoint,
                   " expects TLS with the cluster's token, and this end speaks "
                   "plain text (--insecure, or a loopback endpoint): make both alike"));
}

absl::StatusOr<ServiceStatus> ReadStatus(const std::string& endpoint, bool insecure, const std::string& token,
                                         Duration patience) {
  using Call = grpc::Status (wire::Rendezvous::Stub::*)(grpc::ClientContext*, const wire::StatusRequest&,
                                                        wire::StatusReply*);
  MT_ASSIGN_OR_RETURN(
      const wire::StatusReply reply,
      (Ask<wire::StatusReply, wire::StatusRequest>(endpoint, insecure, token, patience,
                                                   static_cast<Call>(&wire::Rendezvous::Stub::Status))));
  ServiceStatus status;
  status.uptime = Duration(reply.uptime_ns());
  for (const wire::JobStatus& job : reply.jobs()) status.jobs.push_back(DecodeJobView(job));
  return status;
}

std::string StatusTable(const ServiceStatus& status) {
  std::string text = absl::StrCat("up for ", HumanDuration(status.uptime), ", ", status.jobs.size(),
                                  status.jobs.size() == 1 ? " job\n" : " jobs\n");
  for (const JobView& job : status.jobs) absl::StrAppend(&text, "\n", JobTable(job));
  return text;
}

}  // namespace mtrun::rendezvous
