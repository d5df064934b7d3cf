#include "launcher/core/agent_messages.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/cause.h"

namespace mtrun::launcher {
namespace {

std::string RankRange(const rendezvous::Member& member) {
  if (member.workers == 1) return absl::StrCat("rank ", member.first_rank);
  return absl::StrCat("ranks ", member.first_rank, "-", member.first_rank + member.workers - 1);
}

}  // namespace

std::string FormationMessage(const rendezvous::Assignment& assignment, const rendezvous::Member& self,
                             int max_restarts) {
  const size_t nodes = assignment.members.size();
  std::string text = absl::StrCat("generation ", assignment.generation.number, " formed: ", nodes,
                                  nodes == 1 ? " node, " : " nodes, ", "world size ", assignment.world_size,
                                  "; this is node ", self.node_rank, " with ", RankRange(self), "; master ",
                                  assignment.master_address, ":", assignment.master_port);
  if (assignment.restart_count > 0)
    absl::StrAppend(&text, "; ",
                    rendezvous::RestartText(assignment.restart_count, assignment.refunded, max_restarts));
  return text;
}

rendezvous::WorkerFailure MakeFailure(const WorkerExited& exited, const WorkerSlots& slots,
                                      std::optional<Duration> stalled) {
  const WorkerSlot& slot = slots[exited.local_rank];
  rendezvous::WorkerFailure failure;
  failure.host = slots.host();
  failure.rank = slot.rank;
  failure.local_rank = exited.local_rank;
  failure.pid = exited.pid;
  failure.exit_code = exited.exit_code;
  failure.signal = exited.signal;
  failure.log_file = exited.log_file;
  failure.message = exited.message;
  if (stalled) {
    failure.message =
        absl::StrCat("no progress for ", HumanDuration(*stalled), " (--hang_timeout): killed by mtrun");
  }
  failure.wall_time = exited.wall_time;
  failure.failed_at_ns = exited.failed_at_ns;
  failure.early = !slot.said_ready;
  return failure;
}

std::string LeaseEnded(Duration lease, bool hold) {
  return absl::StrCat("no rendezvous service has answered for ", HumanDuration(lease), " (fence_timeout): ",
                      hold ? "the workers commit nothing until one does"
                           : "killing the workers, others may go on without this node");
}

std::string EndsAlone(Duration away) {
  return absl::StrCat("no rendezvous service has answered for ", HumanDuration(away),
                      " and this node's workers are done: it ends, without having heard how the job ended on "
                      "the others");
}

std::string DescribeTakeover(const rendezvous::ServiceHost& before, const rendezvous::ServiceHost& now,
                             uint64_t own, bool insecure) {
  const bool here = !now.service.empty() && own != 0 && now.presence.id == own;
  if (!here || now.service == before.service) return "";
  return absl::StrCat("this node serves the job's rendezvous now; ask it with: mtrun ",
                      insecure ? "--insecure " : "", "--status ", now.service);
}

}  // namespace mtrun::launcher
