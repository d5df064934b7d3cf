// Trainers that prepare themselves before they have a rank (AgentConfig::warm_up): how many workers this node
// offers, and what an exit during start-up means. A value.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/worker_slots.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

class WarmPool {
 public:
  /// Limit of consecutive exits during start-up in one slot.
  static constexpr int kMaxEarlyExits = 3;

  enum class AfterExit {
    kRetry,           // start another process in the slot
    kGiveUpSlot,      // the others continue without this slot
    kGiveUpNode,      // nothing can be trained on this node
    kNothingToTrain,  // the program had another task (--help): this mtrun exits with 0
  };

  /// Serves slots 0 to `slots` - 1; the counts outlive the processes.
  explicit WarmPool(int slots) : early_exits_(static_cast<size_t>(slots)) {}

  /// Records that the worker is in a generation: its slot works.
  void OnReady(int local_rank) { early_exits_.at(static_cast<size_t>(local_rank)) = 0; }
  /// Handles the exit of a worker without a rank. `wrong_settings`: any other process would fail too. Marks
  /// the slot as given up if no other process is to be tried.
  AfterExit OnExit(int local_rank, bool wrong_settings, WorkerSlots* slots);

  /// Returns the workers to offer while no generation runs: 0 if no member is alive and not all are warm.
  static int OfferWhileRegrouping(const WorkerSlots& slots);
  /// Returns the workers to offer during a generation of `now` workers: all fresh ones join together.
  static int OfferWhileRunning(const WorkerSlots& slots, int now);

  /// Workers in the last offer.
  int offered = 0;

  std::string Describe() const;
  bool operator==(const WarmPool&) const = default;

 private:
  std::vector<int> early_exits_;  // by slot, since its last OnReady
};

/// Returns the assignment for the environment of a worker that has no generation yet: this node alone, in a
/// generation of `number`. The worker trusts the channel rather than this.
rendezvous::Assignment PlaceholderAssignment(const rendezvous::Offer& offer, uint64_t number,
                                             int restart_count);

}  // namespace mtrun::launcher
