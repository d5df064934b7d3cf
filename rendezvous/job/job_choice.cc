#include "rendezvous/job/job_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

std::vector<NodeName> Matching(const std::vector<NodeName>& nodes, const std::string& name) {
  std::vector<NodeName> found;
  for (const NodeName& node : nodes) {
    if (node.node_id == name) return {node};
    if (node.host == name) found.push_back(node);
  }
  return found;
}

}  // namespace

std::string QuotedJob(const std::string& job_id) { return absl::StrCat("job \"", job_id, "\""); }

std::string FewJoined(std::vector<std::string> names) {
  const size_t count = names.size();
  if (count > Roster::kFewNodes) {
    names.resize(Roster::kFewNodes);
    names.push_back(absl::StrCat(count - Roster::kFewNodes, " more"));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<const JobMachine*> ChooseJob(const Jobs& jobs, const std::string& job_id) {
  std::vector<std::string> ids;
  const JobMachine *only = nullptr, *ended = nullptr;
  for (const auto& [id, job] : jobs) {
    if (id == job_id) return &job;
    if (job.outcome()) {
      ended = &job;
    } else {
      only = &job;
      ids.push_back(id);
    }
  }
  if (!job_id.empty()) {
    return absl::NotFoundError(absl::StrCat("the service does not have ", QuotedJob(job_id),
                                            ids.empty() ? "" : absl::StrCat(", but ", FewJoined(ids))));
  }
  if (ids.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the service has ", ids.size(), " jobs; say which one (--rdzv_id): ", FewJoined(ids)));
  }
  if (only == nullptr) only = ended;
  if (only == nullptr) return absl::NotFoundError("the service has no job");
  return only;
}

absl::Status HasEndedError(const JobMachine& job, const std::string& consequence) {
  return absl::FailedPreconditionError(absl::StrCat(QuotedJob(job.settings().job_id), " has ended (",
                                                    WhyEnded(*job.outcome()), "): ", consequence));
}

absl::StatusOr<NodeName> ChooseNode(const std::vector<NodeName>& nodes, const std::string& name,
                                    const std::string& kind, const std::string& where) {
  const std::vector<NodeName> found = Matching(nodes, name);
  if (found.size() == 1) return found.front();
  std::vector<std::string> names;
  if (found.empty()) {
    for (const NodeName& node : nodes) names.push_back(node.host.empty() ? node.node_id : node.host);
    return absl::FailedPreconditionError(
        absl::StrCat("\"", name, "\" is no ", kind, " of ", where, ", which ",
                     names.empty() ? "has none" : absl::StrCat("is of ", FewJoined(names))));
  }
  for (const NodeName& node : found) names.push_back(node.node_id);
  return absl::FailedPreconditionError(absl::StrCat("\"", name, "\" names ", found.size(), " ", kind, "s of ",
                                                    where, "; give the id of one: ", FewJoined(names)));
}

std::string ShortName(const std::vector<NodeName>& nodes, const NodeName& node) {
  if (node.host.empty()) return node.node_id;
  const auto of_host = std::count_if(nodes.begin(), nodes.end(),
                                     [&](const NodeName& other) { return other.host == node.host; });
  return of_host == 1 ? node.host : node.node_id;
}

}  // namespace mtrun::rendezvous
