#include "rendezvous/eviction.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

using Jobs = std::map<std::string, JobMachine>;

std::string Joined(std::vector<std::string> names) {
  const size_t count = names.size();
  if (count > Roster::kFewNodes) {
    names.resize(Roster::kFewNodes);
    names.push_back(absl::StrCat(count - Roster::kFewNodes, " more"));
  }
  return absl::StrJoin(names, ", ");
}

std::string Quoted(const std::string& job_id) { return absl::StrCat("job \"", job_id, "\""); }

absl::Status HasEnded(const JobMachine& job) {
  return absl::FailedPreconditionError(absl::StrCat(Quoted(job.settings().job_id), " has ended (",
                                                    WhyEnded(*job.outcome()), "): it waits for nobody"));
}

std::vector<const Member*> Matching(const std::vector<Member>& members, const std::string& name) {
  std::vector<const Member*> found;
  for (const Member& member : members) {
    if (member.node_id == name) return {&member};
    if (member.host == name) found.push_back(&member);
  }
  return found;
}

absl::StatusOr<const Member*> FindMember(const Assignment& last, const std::string& name,
                                         const std::string& where) {
  const std::vector<const Member*> found = Matching(last.members, name);
  if (found.size() == 1) return found.front();
  std::vector<std::string> names;
  if (found.empty()) {
    for (const Member& member : last.members) names.push_back(member.host);
    return absl::FailedPreconditionError(
        absl::StrCat("\"", name, "\" is no member of ", where, ", which is of ", Joined(names)));
  }
  for (const Member* member : found) names.push_back(member->node_id);
  return absl::FailedPreconditionError(absl::StrCat("\"", name, "\" names ", found.size(), " members of ",
                                                    where, "; give the id of one: ", Joined(names)));
}

absl::StatusOr<const JobMachine*> FindJob(const Jobs& jobs, const std::string& job_id) {
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
    return absl::NotFoundError(absl::StrCat("the service does not have ", Quoted(job_id),
                                            ids.empty() ? "" : absl::StrCat(", but ", Joined(ids))));
  }
  if (ids.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the service has ", ids.size(), " jobs; say which one (--rdzv_id): ", Joined(ids)));
  }
  if (only == nullptr) only = ended;
  if (only == nullptr) return absl::NotFoundError("the service has no job");
  return only;
}

}  // namespace

absl::StatusOr<Eviction> ChooseMember(const JobMachine& job, const std::string& name, TimePoint now) {
  if (job.outcome()) return HasEnded(job);
  const GenerationRecord& generation = job.generation();
  if (!generation.known()) {
    return absl::FailedPreconditionError(absl::StrCat(Quoted(job.settings().job_id),
                                                      " has had no generation: it waits for no member (",
                                                      job.View(now).reason, ")"));
  }
  const std::string where =
      absl::StrCat("generation ", generation.id().number, " of ", Quoted(job.settings().job_id));
  const absl::StatusOr<const Member*> member = FindMember(*generation.last(), name, where);
  if (!member.ok()) return member.status();
  const std::string& node_id = (*member)->node_id;
  const RosterNode* node = job.roster().Find(node_id);
  const bool connected = node != nullptr && node->connected;
  if (connected) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is connected (heard ",
                                                      HumanDuration(now - node->heard_at),
                                                      " ago); end its mtrun instead (SIGTERM)"));
  }
  const bool unique = Matching(generation.last()->members, (*member)->host).size() == 1;
  return Eviction{job.settings().job_id, node_id, unique ? (*member)->host : node_id, generation.id()};
}

absl::StatusOr<Eviction> ChooseEviction(const Jobs& jobs, const std::string& job_id, const std::string& name,
                                        TimePoint now) {
  const absl::StatusOr<const JobMachine*> job = FindJob(jobs, job_id);
  if (!job.ok()) return job.status();
  return ChooseMember(**job, name, now);
}

std::string DescribeEviction(const Eviction& eviction, const Jobs& jobs, TimePoint now) {
  const std::string done = absl::StrCat(eviction.name, " is evicted from generation ",
                                        eviction.generation.number, " of ", Quoted(eviction.job_id), ": ");
  const auto job = jobs.find(eviction.job_id);
  if (job == jobs.end()) return absl::StrCat(done, "no node of it is here; it begins again with the next");
  const JobView view = job->second.View(now);
  if (view.phase == "ended") return absl::StrCat(done, "the job has ended: ", view.reason);
  if (view.phase != "running") return absl::StrCat(done, view.reason);
  const auto nodes = std::count_if(view.nodes.begin(), view.nodes.end(),
                                   [](const NodeView& node) { return node.first_rank >= 0; });
  return absl::StrCat(done, "generation ", view.generation.number, " runs on ", nodes,
                      nodes == 1 ? " node" : " nodes");
}

}  // namespace mtrun::rendezvous
