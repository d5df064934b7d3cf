// The CPU process group: all-reduce, broadcast, all-gather and barrier between the ranks of one generation,
// over shared memory within a host and TCP between hosts, with sums in rank order and every blocked call
// abortable.
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
#include "trainers/collectives/types.h"
#include "trainers/collectives/work_queue.h"

namespace mtrun::collectives {

struct GroupOptions {
  MeshOptions mesh;
  /// Of a block that passes through the cache; a multiple of the page size, the same on all ranks.
  size_t slot_bytes = 1 << 20;
};

/// Thread-safe. All ranks must submit the same operations in the same order; they run in that order. Buffers
/// belong to the group until the operation's Work is done.
///
/// Errors of operations: kAborted after Abort() here or on a peer, kUnavailable when a peer died or left (it
/// is named: rank, pid, host), kInvalidArgument for wrong arguments or ranks that disagree. After any error
/// but the caller's own wrong arguments the group is dead: every blocked and later call ends with the first
/// error.
class Group {
 public:
  /// Collective; see ConnectMesh for its errors. A world of one opens nothing and needs no bootstrap (may be
  /// null). `bootstrap` is used only in here.
  static absl::StatusOr<std::unique_ptr<Group>> Connect(const GroupMember& membership, Bootstrap* bootstrap,
                                                        const GroupOptions& options = {});
  /// Leaves: peers in calls that need this rank get an error. Operations that have not begun end with
  /// kAborted.
  ~Group();

  int rank() const { return rank_; }
  int size() const { return world_; }
  /// Some peer is on this host.
  bool has_local_peers() const { return transport_ != nullptr && transport_->has_local(); }

  using OnDone = WorkQueue::OnDone;
  using Start = WorkQueue::Start;
  /// In place, `count` elements. With `notes` everybody hears everybody's.
  std::shared_ptr<Work> AllReduce(void* data, size_t count, DataType dtype, ReduceOp op,
                                  OnDone on_done = nullptr, Start start = Start::kNow,
                                  std::shared_ptr<Notes> notes = nullptr);
  std::shared_ptr<Work> Broadcast(void* data, size_t count, DataType dtype, int root,
                                  OnDone on_done = nullptr, Start start = Start::kNow);
  /// `outputs[r]`, size() of them, receives rank r's `input`, `count` elements each.
  std::shared_ptr<Work> AllGather(const void* input, std::vector<void*> outputs, size_t count, DataType dtype,
                                  OnDone on_done = nullptr, Start start = Start::kNow);
  std::shared_ptr<Work> Barrier(OnDone on_done = nullptr, Start start = Start::kNow);

  /// Zeroed memory inside this rank's segment, page-aligned, alive as long as the pointer: operations on it
  /// copy less. Ranks need not agree on its use. After an operation on it has failed a peer may still read
  /// it, so nothing more is written there. kFailedPrecondition without peers on this host.
  absl::StatusOr<std::shared_ptr<char>> Allocate(size_t bytes);

  /// Ends every blocked and later call, here and on the peers, with kAborted and `why`.
  void Abort(std::string_view why);
  /// How long the running operation has waited for peers so far, zero when none runs. Any thread.
  Duration waiting_for() const { return queue_ ? queue_->running_for() : Duration::zero(); }
  /// The lowest rank that has left in order, which by itself is no failure; -1: none. Any thread.
  int first_left() const { return transport_ ? transport_->FirstLeft() : -1; }
  /// OK while the group works.
  absl::Status status() const { return failure_.status(); }
  /// Readable (poll) from the first failure on, that of Abort() included. Lives as long as the group.
  int failure_fd() const { return failure_.event_fd(); }

 private:
  Group(int rank, int world) : rank_(rank), world_(world) {}
  std::shared_ptr<Work> Submit(WorkQueue::Operation operation, OnDone on_done, Start start);
  std::shared_ptr<Work> Refuse(absl::Status status, const OnDone& on_done) const;

  const int rank_;
  const int world_;
  Failure failure_;

  // Null in a world of one. Constant after Connect; destroyed from the last to the first.
  std::vector<Peer> peers_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<WorkQueue> queue_;
};

}  // namespace mtrun::collectives
