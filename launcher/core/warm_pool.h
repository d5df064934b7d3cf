// Trainers that prepare themselves before they have a rank (AgentConfig::warm_up): how many workers this node
// offers, and what an exit during start-up means. A value.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/worker_slots.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

class WarmPool {
 public:
  /// So many workers in a row may exit in one slot during start-up.
  static constexpr int kMaxEarlyExits = 3;

  enum class AfterExit {
    kRetry,           // another process is started there
    kGiveUpSlot,      // the others continue without it
    kGiveUpNode,      // nothing can be trained here
    kNothingToTrain,  // it had something else to do (--help): this mtrun ends with 0
  };

  /// For slots 0 to `slots` - 1; the counts outlive the processes.
  explicit WarmPool(int slots) : early_exits_(static_cast<size_t>(slots)) {}

  /// The worker takes part in a generation: its slot is good.
  void OnReady(int local_rank) { early_exits_.at(static_cast<size_t>(local_rank)) = 0; }
  /// A worker without a rank exited. `wrong_settings`: no other process will do better. Marks the slot as
  /// given up where that follows.
  AfterExit OnExit(int local_rank, bool wrong_settings, WorkerSlots* slots);

  /// Workers to offer while no generation runs: none until a member of the last one is alive or all are warm.
  static int OfferWhileRegrouping(const WorkerSlots& slots);
  /// Workers to offer beside a running generation that has `now` of them: the fresh join all together.
  static int OfferWhileRunning(const WorkerSlots& slots, int now);

  /// By the last offer.
  int offered = 0;

  std::string Describe() const;
  bool operator==(const WarmPool&) const = default;

 private:
  std::vector<int> early_exits_;  // by slot, since a worker of it last took part
};

/// What a worker finds in its environment before there is a generation for it: this node alone, in a
/// generation of `number`. It believes the channel.
rendezvous::Assignment PlaceholderAssignment(const rendezvous::Offer& offer, uint64_t number,
                                             int restart_count);

}  // namespace mtrun::launcher
