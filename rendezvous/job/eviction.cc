#include "rendezvous/job/eviction.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"

namespace mtrun::rendezvous {

absl::StatusOr<Eviction> ChooseMember(const JobMachine& job, const std::string& name, TimePoint now) {
  if (job.outcome()) return HasEndedError(job, "it waits for nobody");
  const GenerationRecord& generation = job.generation();
  const std::string& job_id = job.settings().job_id;
  if (!generation.known()) {
    return absl::NotFoundError(absl::StrCat(
        QuotedJob(job_id), " has had no generation: it waits for no member (", job.View(now).reason, ")"));
  }
  std::vector<NodeName> members;
  for (const Member* member : job.AwaitedMembers()) members.push_back({member->node_id, member->host});
  const std::string where = absl::StrCat("generation ", generation.id().number, " of ", QuotedJob(job_id));
  MT_ASSIGN_OR_RETURN(const NodeName member, ChooseNode(members, name, "member", where));
  const RosterNode* node = job.roster().Find(member.node_id);
  if (node != nullptr && node->connected && !job.IsSuspected(member.node_id)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " is connected (heard ", HumanDuration(now - node->heard_at),
                     " ago); let it leave instead (mtrun --drain, or SIGTERM to its mtrun)"));
  }
  return Eviction{job_id, member.node_id, ShortName(members, member), generation.id()};
}

ControlAsked EvictionEvent(const Eviction& eviction, const Requester& by) {
  return {ControlCall{EvictCall{eviction.name}, by}, eviction.node_id};
}

std::string DescribeEviction(const Eviction& eviction, const Jobs& jobs, TimePoint now) {
  const std::string done = absl::StrCat(eviction.name, " is evicted from generation ",
                                        eviction.generation.number, " of ", QuotedJob(eviction.job_id), ": ");
  const auto job = jobs.find(eviction.job_id);
  if (job == jobs.end()) return absl::StrCat(done, "no node of it is here; it begins again with the next");
  const JobView view = job->second.View(now);
  if (view.phase == "ended") return absl::StrCat(done, "the job has ended: ", view.reason);
  if (view.phase != "running") return absl::StrCat(done, view.reason);
  const auto nodes = std::count_if(view.nodes.begin(), view.nodes.end(),
                                   [](const NodeView& node) { return node.first_rank >= 0; });
  return absl::StrCat(done, "generation ", view.generation.number, " runs on ", Counted(nodes, "node"));
}

}  // namespace mtrun::rendezvous
