// This node's workers, a slot each by local rank: what each has said and how far its process is. A value: no
// clock, no process, no effect.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/worker_channel.h"

namespace mtrun::launcher {

struct WorkerSlot {
  enum class Life { kRunning, kExited, kGone };  // gone: nothing of its process group is left either
  Life life = Life::kRunning;
  bool said_hello = false;
  bool cooperative = false;   // says its hello
  bool presumed = false;      // takes the place of a cooperative one and has not said hello yet
  bool due = false;           // a fresh process is wanted here once nothing of the old one is left
  int rank = -1;              // of the generation that runs, or (regrouping) of the last; -1: it has none
  bool warm = false;          // has prepared everything, before its first assignment
  bool given_up = false;      // no other process is tried here
  bool said_ready = false;    // takes part in a generation
  bool connected = false;     // has a group of the generation that runs
  bool said_done = false;     // and is cooperative: its result is safe, its exit does not matter
  bool said_leaving = false;  // and is cooperative
  bool exited_well = false;   // as a member of the generation that runs
  int exit_code = -1;         // of a process that ended by itself; -1: it runs, or a signal ended it

  bool running() const { return life == Life::kRunning; }
  bool member() const { return rank >= 0; }
  bool done() const { return said_done || exited_well; }
  bool out() const { return !running() || said_leaving || said_done; }
  bool regroups() const { return said_hello ? cooperative : presumed; }
  bool operator==(const WorkerSlot&) const = default;
};

class WorkerSlots {
 public:
  /// `host` is for names. With `warm_up` the workers are trainers: a fresh one is believed to be cooperative.
  explicit WorkerSlots(std::string host, bool warm_up = false) : host_(std::move(host)), warm_up_(warm_up) {}

  bool empty() const { return slots_.empty(); }
  int size() const { return static_cast<int>(slots_.size()); }
  /// Nothing when there is no such slot.
  WorkerSlot* Find(int local_rank);
  WorkerSlot& operator[](int local_rank) { return slots_.at(static_cast<size_t>(local_rank)); }
  const WorkerSlot& operator[](int local_rank) const { return slots_.at(static_cast<size_t>(local_rank)); }

  /// `count` slots without a process.
  void Reset(int count);
  void Clear();
  /// Gives `count` of the workers the ranks from `first_rank`, in order of local rank: those who were in the
  /// last generation first, then those who are warm, then those who can still become so.
  void AssignRanks(int count, int first_rank);
  /// The generation is over: the dead lose their ranks, nobody is done.
  void EndGeneration();
  /// The slot gets a fresh process. `presumed`: it is believed to be cooperative until its own hello.
  void Start(int local_rank, bool presumed);

  /// Members whose process is to be replaced and of which nothing is left.
  std::vector<int> Due() const;
  /// Slots whose worker is gone; not those that were given up, nor those of whose death a generation still
  /// has to hear.
  std::vector<int> Vacant() const;
  /// Who listens: running and greeted.
  std::vector<int> Listening() const;
  std::vector<int> Members() const;
  /// -1: none has it.
  int LocalRankOf(int rank) const;
  /// Running without a rank.
  std::vector<int> Idle() const;

  bool AllAtLeast(WorkerSlot::Life life) const;
  bool AllMembersDone() const;
  /// Every member's result is safe whatever becomes of its process.
  bool AllMembersSafe() const;
  bool AllOut() const;
  bool AnyMemberOut() const;
  bool AnyMemberRunning() const;
  /// Nobody who runs would end with its generation.
  bool AllRegroup() const;
  /// Somebody runs here, and everybody who does outlives a generation.
  bool Cooperative() const;
  /// There are members, and each left or was done, and exited with 0.
  bool AllMembersLeftWell() const;
  /// The one status but 0 with which workers that left or were done have exited; 0 where there is none, where
  /// there are several, or where a signal ended one.
  int StatusOfLeavers() const;

  /// What dead workers left must be gone by then.
  const std::optional<TimePoint>& leftovers_deadline() const { return leftovers_deadline_; }
  void AwaitLeftovers(TimePoint deadline) { leftovers_deadline_ = deadline; }
  void ForgetLeftovers() { leftovers_deadline_.reset(); }
  /// Slots that are due count as gone.
  void GiveUpOnLeftovers();
  void GiveUpOnAll();

  const std::string& host() const { return host_; }
  /// "rank 3 (local 1) on node1", "local rank 1 (no rank yet) on node1".
  std::string NameOf(int local_rank) const;
  std::string Describe() const;
  bool operator==(const WorkerSlots&) const = default;

 private:
  template <typename Predicate>
  std::vector<int> Where(Predicate predicate) const;

  std::string host_;
  bool warm_up_ = false;
  std::vector<WorkerSlot> slots_;
  std::optional<TimePoint> leftovers_deadline_;
};

}  // namespace mtrun::launcher
