// This node's workers, one slot per local rank: their reports and process states. A value without effects.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/worker_channel.h"

namespace mtrun::launcher {

struct WorkerSlot {
  enum class Life { kRunning, kExited, kGone };  // gone: its process group is empty too
  Life life = Life::kRunning;
  bool said_hello = false;
  bool cooperative = false;   // according to its hello
  bool presumed = false;      // replaces a cooperative worker and has not said hello yet
  bool due = false;           // needs a fresh process as soon as the old one's group is empty
  int rank = -1;              // in the running generation, or (regrouping) in the last; -1: none
  bool warm = false;          // prepared everything before its first assignment
  bool given_up = false;      // no further process is tried here
  bool said_ready = false;    // joined a generation
  bool connected = false;     // has its collective group in the running generation
  bool said_done = false;     // and is cooperative: its result is safe, its exit status is irrelevant
  bool said_leaving = false;  // and is cooperative
  bool exited_well = false;   // as a member of the running generation
  int exit_code = -1;         // of a process that exited by itself; -1: it runs, or was killed by a signal

  bool running() const { return life == Life::kRunning; }
  bool member() const { return rank >= 0; }
  bool done() const { return said_done || exited_well; }
  bool out() const { return !running() || said_leaving || said_done; }
  bool regroups() const { return said_hello ? cooperative : presumed; }
  bool operator==(const WorkerSlot&) const = default;
};

class WorkerSlots {
 public:
  /// `host` is for names. If `warm_up` is set the workers are trainers: a fresh one is presumed cooperative.
  explicit WorkerSlots(std::string host, bool warm_up = false) : host_(std::move(host)), warm_up_(warm_up) {}

  bool empty() const { return slots_.empty(); }
  int size() const { return static_cast<int>(slots_.size()); }
  /// Returns null if the slot does not exist.
  WorkerSlot* Find(int local_rank);
  WorkerSlot& operator[](int local_rank) { return slots_.at(static_cast<size_t>(local_rank)); }
  const WorkerSlot& operator[](int local_rank) const { return slots_.at(static_cast<size_t>(local_rank)); }

  /// Makes `count` slots without a process.
  void Reset(int count);
  void Clear();
  /// Gives `count` of the workers the ranks from `first_rank`, in order of local rank: first members of the
  /// last generation, then warm workers, then those that can still become warm.
  void AssignRanks(int count, int first_rank);
  /// Ends the generation: dead workers lose their ranks, and no worker is done.
  void EndGeneration();
  /// Marks the slot as running a fresh process. `presumed`: it counts as cooperative until its own hello.
  void Start(int local_rank, bool presumed);

  /// Returns the members whose process needs replacing and whose process group is empty.
  std::vector<int> Due() const;
  /// Returns slots without a process, except given-up ones and members whose exit must still be reported.
  std::vector<int> Vacant() const;
  /// Returns the workers that can be sent messages: running, and their hello was received.
  std::vector<int> Listening() const;
  std::vector<int> Members() const;
  /// Returns -1 if no worker has the rank.
  int LocalRankOf(int rank) const;
  /// Returns the running workers without a rank.
  std::vector<int> Idle() const;

  bool AllAtLeast(WorkerSlot::Life life) const;
  bool AllMembersDone() const;
  /// Returns whether every member's result is safe, whatever happens to its process.
  bool AllMembersSafe() const;
  bool AllOut() const;
  bool AnyMemberOut() const;
  bool AnyMemberRunning() const;
  /// Returns whether all running workers outlive their generation.
  bool AllRegroup() const;
  /// Returns whether a worker runs here and all running workers outlive their generation.
  bool Cooperative() const;
  /// Returns whether there are members, and each left or was done and exited with 0.
  bool AllMembersLeftWell() const;
  /// Returns the one nonzero exit status of the workers that left or were done; 0 if there is none, if there
  /// are several, or if a signal killed one.
  int StatusOfLeavers() const;

  /// Deadline for the leftover processes of dead workers.
  const std::optional<TimePoint>& leftovers_deadline() const { return leftovers_deadline_; }
  void AwaitLeftovers(TimePoint deadline) { leftovers_deadline_ = deadline; }
  void ForgetLeftovers() { leftovers_deadline_.reset(); }
  /// Treats slots that are due as gone.
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
