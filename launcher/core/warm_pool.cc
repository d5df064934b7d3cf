#include "launcher/core/warm_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::launcher {
namespace {

struct Counts {
  int members = 0, warm = 0, pending = 0;
};

Counts CountOf(const WorkerSlots& slots) {
  Counts counts;
  for (int i = 0; i < slots.size(); ++i) {
    const WorkerSlot& slot = slots[i];
    if (slot.running() && slot.member()) {
      ++counts.members;
    } else if (slot.running() && slot.warm) {
      ++counts.warm;
    } else if (!slot.given_up) {
      ++counts.pending;
    }
  }
  return counts;
}

}  // namespace

WarmPool::AfterExit WarmPool::OnExit(int local_rank, bool wrong_settings, WorkerSlots* slots) {
  const bool others = slots->AnyMemberRunning();
  WorkerSlot& slot = (*slots)[local_rank];
  if (slot.exit_code == 0 && !others) return AfterExit::kNothingToTrain;
  const int exits = ++early_exits_.at(static_cast<size_t>(local_rank));
  slot.given_up = exits >= kMaxEarlyExits || wrong_settings;
  if (!slot.given_up) return AfterExit::kRetry;
  return others ? AfterExit::kGiveUpSlot : AfterExit::kGiveUpNode;
}

int WarmPool::OfferWhileRegrouping(const WorkerSlots& slots) {
  const Counts counts = CountOf(slots);
  return counts.members > 0 || counts.pending == 0 ? counts.members + counts.warm : 0;
}

int WarmPool::OfferWhileRunning(const WorkerSlots& slots, int now) {
  const Counts counts = CountOf(slots);
  return counts.pending == 0 ? std::max(now, counts.members + counts.warm) : now;
}

std::string WarmPool::Describe() const {
  return absl::StrCat("offered ", offered, ", early exits ", absl::StrJoin(early_exits_, " "));
}

rendezvous::Assignment PlaceholderAssignment(const rendezvous::Offer& offer, uint64_t number,
                                             int restart_count) {
  rendezvous::Member self;
  self.node_id = offer.node_id;
  self.host = offer.host;
  self.address = offer.address;
  self.role = offer.role;
  self.workers = offer.workers;
  rendezvous::Assignment assignment;
  assignment.generation.number = number;
  assignment.world_size = self.workers;
  assignment.master_address = self.address;
  assignment.restart_count = restart_count;
  assignment.members.push_back(std::move(self));
  return assignment;
}

}  // namespace mtrun::launcher
