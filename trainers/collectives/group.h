// The CPU process group: all-reduce, broadcast, all-gather and barrier between the ranks of one generation,
// over shared memory within a host and TCP between hosts. The order of sums does not depend on which ranks
// share a host; blocked calls can be aborted.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/collectives/bootstrap.h"
#include "trainers/collectives/failure.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/monitor.h"
#include "trainers/collectives/transport.h"
#include "trainers/collectives/tree_sum.h"
#include "trainers/collectives/types.h"
#include "trainers/collectives/work_queue.h"

namespace mtrun::collectives {

struct GroupOptions {
  MeshOptions mesh;
  /// Memory that a phase exposes, in use as far as it is filled; a multiple of the page size, the same on all
  /// ranks.
  size_t slot_bytes = 4 << 20;
};

/// Thread-safe. All ranks must submit the same operations in the same order; they run in that order. Buffers
/// belong to the group until the operation's Work is done.
///
/// Errors of operations: kAborted after Abort() here or on a peer; kUnavailable if a peer died or left (the
/// message names its rank, pid and host); kInvalidArgument if arguments are wrong or ranks disagree. Unless
/// the caller's own arguments were wrong, the group is then dead: all blocked and later calls end with the
/// first error.
class Group {
 public:
  /// Connects all ranks; each of them must call it. See ConnectMesh for its errors. `bootstrap` is used only
  /// during the call. A world of one opens no sockets and needs no bootstrap (may be null).
  static absl::StatusOr<std::unique_ptr<Group>> Connect(const GroupMember& membership, Bootstrap* bootstrap,
                                                        const GroupOptions& options = {});
  /// Leaves the group: peers' calls that need this rank fail. Operations not yet begun end with kAborted.
  ~Group();

  int rank() const { return rank_; }
  int size() const { return world_; }
  /// Returns true if a peer is on this host.
  bool has_local_peers() const { return transport_ != nullptr && transport_->has_local(); }

  using OnDone = WorkQueue::OnDone;
  using Start = WorkQueue::Start;
  /// Reduces `count` elements in place. Numbers are added in the order of a tree whose leaves are the ranks
  /// (tree_sum.h); bfloat16 rank by rank, rounded once. If `notes` is given, every rank receives the notes of all.
  std::shared_ptr<Work> AllReduce(void* data, size_t count, DataType dtype, ReduceOp op,
                                  OnDone on_done = nullptr, Start start = Start::kNow,
                                  std::shared_ptr<Notes> notes = nullptr);
  /// Sums partial sums of all ranks in the order of `plan`, which must be the same on all ranks: kFloat32 or
  /// kFloat64. `data`: this rank's, `count` elements each, at least room for one; the sum replaces the first.
  std::shared_ptr<Work> SumPartials(void* data, size_t count, DataType dtype,
                                    std::shared_ptr<const TreePlan> plan, OnDone on_done = nullptr,
                                    std::shared_ptr<Notes> notes = nullptr);
  std::shared_ptr<Work> Broadcast(void* data, size_t count, DataType dtype, int root,
                                  OnDone on_done = nullptr, Start start = Start::kNow);
  /// Copies rank r's `input`, `count` elements, to `outputs[r]`; there are size() outputs.
  std::shared_ptr<Work> AllGather(const void* input, std::vector<void*> outputs, size_t count, DataType dtype,
                                  OnDone on_done = nullptr, Start start = Start::kNow);
  std::shared_ptr<Work> Barrier(OnDone on_done = nullptr, Start start = Start::kNow);

  /// Returns zeroed, page-aligned memory in this rank's segment, which lives as long as the pointer.
  /// Operations on it copy less; ranks need not agree on its use. If an operation on it fails, do not write
  /// to it any more, because a peer may still read it. kFailedPrecondition if no peer is on this host.
  absl::StatusOr<std::shared_ptr<char>> Allocate(size_t bytes);

  /// Ends all blocked and later calls, here and on the peers, with kAborted and `why`.
  void Abort(std::string_view why);
  /// Returns how long the running operation has been waiting for peers; zero if none is running. Any thread.
  Duration waiting_for() const { return queue_ ? queue_->running_for() : Duration::zero(); }
  /// Returns the lowest rank that has left in order, which is not a failure by itself; -1: none. Any thread.
  int first_left() const { return transport_ ? transport_->FirstLeft() : -1; }
  /// Returns OK while the group works.
  absl::Status status() const { return failure_.status(); }
  /// Readable (poll) from the first failure on, including Abort(). Valid as long as the group.
  int failure_fd() const { return failure_.event_fd(); }

 private:
  Group(int rank, int world);
  std::shared_ptr<Work> SubmitAllReduce(void* data, Call call, OnDone on_done, Start start,
                                        std::shared_ptr<Notes> notes, std::shared_ptr<const TreePlan> plan);
  std::shared_ptr<Work> Submit(WorkQueue::Operation operation, OnDone on_done, Start start);
  std::shared_ptr<Work> Refuse(absl::Status status, const OnDone& on_done) const;

  const int rank_;
  const int world_;
  const std::shared_ptr<const TreePlan> order_of_ranks_;  // of sums with one input a rank
  Failure failure_;

  // Null in a world of one. Constant after Connect; destroyed in reverse order.
  std::vector<Peer> peers_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<WorkQueue> queue_;
};

}  // namespace mtrun::collectives
