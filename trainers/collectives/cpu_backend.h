// The CPU process group as LibTorch sees it: a c10d::Backend over Group (group.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "trainers/collectives/group.h"

namespace mtrun::collectives {

/// Thread-safe, as Group is. Takes CPU tensors that are dense (any memory format, the same on all ranks).
/// Sum, average, max and min of float32, float64, bfloat16, int64 and uint8; broadcast and all-gather of any
/// type. As in all of c10d, errors are exceptions: of the call for wrong arguments (c10::Error), of
/// Work::wait() for what happened to the group (c10::DistBackendError). An operation with asyncOp = false may
/// start only in Work::wait(), which saves a wake-up. Timeouts are not observed: every wait ends when a peer
/// dies or the group is aborted.
class CpuBackend : public c10d::Backend {
 public:
  using Works = c10::intrusive_ptr<c10d::Work>;

  explicit CpuBackend(std::unique_ptr<Group> group);

  const std::string getBackendName() const override { return "mtrun"; }
  Works allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_coalesced(std::vector<at::Tensor>& tensors,
                            const c10d::AllreduceCoalescedOptions& options) override;
  /// A sum, started at once; see Group::AllReduce.
  Works AllReduceWithNotes(const at::Tensor& tensor, std::shared_ptr<Notes> notes);
  Works broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  Works allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                  const c10d::AllgatherOptions& options) override;
  Works _allgather_base(at::Tensor& output, at::Tensor& input,
                        const c10d::AllgatherOptions& options) override;
  Works barrier(const c10d::BarrierOptions& options) override;
  void abort() override { group_->Abort("abort() was called"); }

  Group& group() { return *group_; }

 private:
  Works Reduce(const std::vector<at::Tensor>& tensors, ReduceOp op, Group::Start start,
               std::shared_ptr<Notes> notes = nullptr);

  const std::unique_ptr<Group> group_;
};

/// Makes `core` the back-end of a c10d group for CPU tensors, and its default one.
void AddCpuBackend(c10d::ProcessGroup& group, std::unique_ptr<Group> core);
/// The one that was added; null for the groups of others.
CpuBackend* CpuBackendOf(const c10d::ProcessGroup& group);

}  // namespace mtrun::collectives
