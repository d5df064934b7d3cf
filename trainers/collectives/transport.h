// The one primitive under every collective: a phase. In a phase each rank exposes some bytes to the others of
// its host; it ends when all of them have entered it. Ranks of other hosts get a frame. A phase with empty
// frames ends when all ranks have entered it; in another one, only ranks that exchange bytes wait for each
// other across hosts.
//
// Invariants that all operations rely on:
//  1. Every rank goes through the same phases, numbered from 1, in order.
//  2. A rank writes the bytes that it exposes in phase p before it enters p. Its local peers read them after
//     their p and before their p+1.
//  3. Hence, after Exchange(p) returned OK, everything exposed before p may be overwritten: the slots p % 2
//     suffice.
//  4. After it has failed, nothing exposed in p-1 or p may be overwritten or freed. A peer that was stopped
//     in p-1 may read it later, find all ranks in p and, if p ends its operation, use the data.
//
// A rank enters a phase by a store to the `phase` word of its own segment. A waiting rank spins for some
// microseconds, then sleeps on the peer's word (futex). Before it sleeps it sets its own `sleeping` word,
// which tells publishers that a wake-up is worth a system call.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/collectives/failure.h"
#include "trainers/collectives/frames.h"
#include "trainers/collectives/host_map.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/segment.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

/// Call of a test before this process enters a phase, with its number. Null: none.
struct TransportHooks {
  std::atomic<void (*)(uint32_t phase)> before_phase = nullptr;
};
inline TransportHooks transport_hooks;

/// One rank's part of one phase.
struct Phase {
  Call call;
  std::shared_ptr<Area> area;            // the area that local peers read; null: the slot
  const void* exposed = nullptr;         // start of the exposed bytes in the area
  uint64_t stride = 0;                   // bytes from one exposed partial sum to the next; 0: there is one
  std::vector<Pieces<ConstBytes>> send;  // [world], for remote peers only; may be empty: no bytes
  std::vector<Pieces<MutableBytes>> receive;  // [world], as above; bytes must equal those that the peer sends
  bool empty_frames = true;                   // exchange frames without bytes too; the same on all ranks
};

class Transport {
 public:
  /// How long the reason of a closed data connection is awaited. Without one, only the connection to a living
  /// peer broke.
  static constexpr Duration kReasonPatience = std::chrono::milliseconds(25);

  /// `peers` must outlive this.
  Transport(int rank, uint64_t generation, std::unique_ptr<OwnSegment> segment, std::vector<Peer>& peers,
            Failure& failure, Duration reason_patience = kReasonPatience);
  /// Opens the peers' segments. Call once, before all others.
  absl::Status Open();

  int rank() const { return rank_; }
  int world() const { return static_cast<int>(peers_.size()); }
  bool is_local(int rank) const { return peers_[static_cast<size_t>(rank)].local; }
  bool has_local() const { return has_local_; }
  bool has_remote() const { return has_remote_; }
  const HostMap& hosts() const { return hosts_; }
  OwnSegment& segment() { return *segment_; }

  /// Returns the memory that the next Exchange exposes; it may be written now.
  char* NextSlot() { return segment_->slot(phase_ + 1); }

  /// Runs one phase. Only one thread at a time may be in here or in View. Errors: the group's failure;
  /// kInvalidArgument if a peer makes another call (the message names both); kUnavailable if a peer left or
  /// its connection broke. After an error the group is dead.
  absl::Status Exchange(const Phase& phase);
  /// Returns the `bytes` bytes that local rank `rank` exposed in the phase that just ended.
  absl::StatusOr<const char*> View(int rank, size_t bytes);
  /// Returns the `stride` of that rank's phase. View checks what it leads to.
  uint64_t StrideOf(int rank) const;
  /// Returns true if that rank exposed bytes of an area, not of its slot.
  bool InArea(int rank) const;

  // For the monitor, any thread.
  /// Returns true while a call may sleep on a peer's word, or on that of `rank` if one is given.
  bool Sleeps(int rank = -1) const;
  /// Wakes the sleeping call, which checks the failure and MarkLeft again.
  void Wake() const;
  /// Records that `rank` has left in order: waits for phases that it never entered end with an error.
  void MarkLeft(int rank);
  /// Returns the lowest rank that has left in order; -1 if none has.
  int FirstLeft() const;

 private:
  struct Pending;

  std::vector<Pending> FramesOf(const Phase& phase);
  void Announce(const Phase& phase);
  absl::Status AwaitLocal(int rank);
  absl::Status SleepUntilReached(int rank);
  absl::Status ExchangeFrames(const Phase& phase);
  absl::Status WaitForSockets(const std::vector<Pending>& pending);
  absl::Status Advance(Pending& pending, bool* moved);
  absl::Status CheckHead(const Pending& pending) const;
  absl::Status Lost(int rank) const;
  absl::Status HungUp(int rank) const;
  absl::Status OtherCall(int rank, const Call& theirs) const;
  const std::atomic<uint32_t>& PhaseWord(int rank) const;
  bool Reached(int rank) const;

  // Constant after construction and Open.
  const int rank_;
  const uint64_t generation_;
  std::unique_ptr<OwnSegment> segment_;
  std::vector<Peer>& peers_;
  Failure& failure_;
  const Duration reason_patience_;
  const HostMap hosts_;
  std::vector<std::unique_ptr<PeerSegment>> segments_;  // null: remote or this rank
  bool has_local_ = false, has_remote_ = false;
  std::chrono::nanoseconds spin_{0};

  // Used only by the exchanging thread.
  uint32_t phase_ = 0;
  Call call_;
  std::shared_ptr<Area> exposed_;  // by the last successful phase

  // Any thread.
  std::atomic<int> sleeping_on_ = -1;
  std::unique_ptr<std::atomic<bool>[]> left_;
};

}  // namespace mtrun::collectives
