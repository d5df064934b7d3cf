#include "rendezvous/job/control_choice.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "rendezvous/job/eviction.h"

namespace mtrun::rendezvous {
namespace {

/// Describes what remains of the running generation after the node has left.
std::string AfterDrain(const JobMachine& job, const std::string& node_id) {
  if (job.generation().FindRunning(node_id) == nullptr) return "it is in no generation that runs";
  const size_t others = job.generation().last()->members.size() - 1;
  const auto least = static_cast<size_t>(job.settings().min_nodes);
  const std::string what = "its trainers finish their step, other workers are stopped";
  if (others >= least) return absl::StrCat(what, "; the job continues with ", Counted(others, "node"));
  return absl::StrCat(what, "; then the job waits for others: it needs ", Counted(least, "node"));
}

absl::StatusOr<ControlDecision> DecideDrain(const std::string& asked, const Requester& by,
                                            const JobMachine& job, TimePoint now) {
  if (job.outcome()) return HasEndedError(job, "its nodes leave by themselves");
  const std::string& job_id = job.settings().job_id;
  std::vector<NodeName> nodes;
  for (const auto& [node_id, node] : job.roster().nodes())
    nodes.push_back({node_id, node.offer ? node.offer->host : ""});
  MT_ASSIGN_OR_RETURN(const NodeName chosen, ChooseNode(nodes, asked, "node", QuotedJob(job_id)));
  const RosterNode& node = *job.roster().Find(chosen.node_id);
  if (!node.connected) {
    return absl::FailedPreconditionError(
        absl::StrCat(asked, " is not connected (silent for ", HumanDuration(now - node.heard_at),
                     "): it hears nothing; if it never comes back, mtrun --evict says so"));
  }
  const std::string name = ShortName(nodes, chosen);
  return ControlDecision{
      .job_id = job_id,
      .event = {ControlCall{DrainCall{name}, by}, chosen.node_id},
      .text = absl::StrCat(name, " leaves ", QuotedJob(job_id), ": ", AfterDrain(job, chosen.node_id))};
}

absl::StatusOr<ControlDecision> DecideStop(const StopCall& stop, const Requester& by, const JobMachine& job) {
  if (job.outcome()) return HasEndedError(job, "there is nothing to stop");
  const std::string& job_id = job.settings().job_id;
  const std::string nodes = Counted(job.roster().size(), "node");
  std::string text = absl::StrCat(QuotedJob(job_id), " is stopped on ", nodes);
  if (stop.checkpoint)
    text = absl::StrCat(QuotedJob(job_id), ": ", nodes,
                        " leave after a step; trainers save, others are stopped");
  // If several services may have the job, nodes of another one are not notified of this.
  if (!job.HasAuthority())
    absl::StrAppend(&text, "; this service sees too few nodes: ask the others of the list as well");
  return ControlDecision{.job_id = job_id, .event = {ControlCall{stop, by}, ""}, .text = std::move(text)};
}

absl::StatusOr<ControlDecision> DecideStacks(const Requester& by, const JobMachine& job) {
  if (job.outcome()) return HasEndedError(job, "there are no workers");
  const std::string& job_id = job.settings().job_id;
  return ControlDecision{.job_id = job_id,
                         .event = {ControlCall{StacksCall(), by}, ""},
                         .text = absl::StrCat(QuotedJob(job_id), ": ", Counted(job.roster().size(), "node"),
                                              " write the stacks of their workers into their log folders")};
}

}  // namespace

absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const JobMachine& job,
                                              TimePoint now) {
  const Requester& by = question.by;
  if (const auto* drain = std::get_if<DrainCall>(&question.what))
    return DecideDrain(drain->node, by, job, now);
  if (const auto* stop = std::get_if<StopCall>(&question.what)) return DecideStop(*stop, by, job);
  if (std::holds_alternative<StacksCall>(question.what)) return DecideStacks(by, job);
  const std::string& node = std::get<EvictCall>(question.what).node;
  MT_ASSIGN_OR_RETURN(const Eviction eviction, ChooseMember(job, node, now));
  return ControlDecision{.job_id = eviction.job_id,
                         .event = EvictionEvent(eviction, by),
                         .generation = eviction.generation.number};
}

absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const Jobs& jobs,
                                              TimePoint now) {
  MT_ASSIGN_OR_RETURN(const JobMachine* job, ChooseJob(jobs, question.job_id));
  return DecideControl(question, *job, now);
}

absl::StatusOr<RankPlace> FindRank(const Jobs& jobs, const std::string& job_id, int rank) {
  MT_ASSIGN_OR_RETURN(const JobMachine* job, ChooseJob(jobs, job_id));
  if (job->outcome()) return HasEndedError(*job, "its logs lie in the folders that its nodes named");
  const std::string name = QuotedJob(job->settings().job_id);
  if (!job->generation().running())
    return absl::FailedPreconditionError(absl::StrCat(name, " runs no worker now; mtrun --status says why"));
  const Assignment& last = *job->generation().last();
  for (const Member& member : last.members) {
    if (rank < member.first_rank || rank >= member.first_rank + member.workers) continue;
    const RosterNode* node = job->roster().Find(member.node_id);
    if (node != nullptr && node->connected)
      return RankPlace{job->settings().job_id, member.node_id, job->roster().Name(member.node_id)};
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank, " is on ", member.host, ", which is not connected"));
  }
  return absl::FailedPreconditionError(absl::StrCat("generation ", last.generation.number, " of ", name,
                                                    " has no rank ", rank, ", but 0 to ",
                                                    last.world_size - 1));
}

std::string DescribeControl(const ControlDecision& decision, const Jobs& jobs, TimePoint now) {
  const auto* evict = std::get_if<EvictCall>(&decision.event.call.what);
  if (evict == nullptr) return decision.text;
  const Eviction eviction{decision.job_id, decision.event.node_id, evict->node, {decision.generation, 0}};
  return DescribeEviction(eviction, jobs, now);
}

}  // namespace mtrun::rendezvous
