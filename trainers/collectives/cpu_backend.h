// The CPU process group for LibTorch: a c10d::Backend over Group (group.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "trainers/collectives/group.h"

namespace mtrun::collectives {

/// Thread-safe, like Group. Takes dense CPU tensors of any memory format, which must be the same on all
/// ranks. Reduces float32, float64, bfloat16, int64 and uint8 (sum, average, max, min); broadcasts and
/// gathers any type. Errors are exceptions, as in all of c10d: the call throws c10::Error if its arguments
/// are wrong, and Work::wait() throws c10::DistBackendError if the group fails. An operation with asyncOp =
/// false may start only in Work::wait(), which saves a wake-up. Timeouts are ignored: every wait ends if a
/// peer dies or the group is aborted.
class CpuBackend : public c10d::Backend {
 public:
  using Works = c10::intrusive_ptr<c10d::Work>;

  explicit CpuBackend(std::unique_ptr<Group> group);

  const std::string getBackendName() const override { return "mtrun"; }
  Works allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_coalesced(std::vector<at::Tensor>& tensors,
                            const c10d::AllreduceCoalescedOptions& options) override;
  /// Starts a sum with notes at once; see Group::AllReduce.
  Works AllReduceWithNotes(const at::Tensor& tensor, std::shared_ptr<Notes> notes);
  /// Sums partial sums [n, count], n >= 1, with or without notes; see Group::SumPartials. The sum is the
  /// first.
  Works SumPartials(const at::Tensor& partials, std::shared_ptr<const TreePlan> plan,
                    std::shared_ptr<Notes> notes);
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

/// Installs `core` as the c10d group's backend for CPU tensors and as its default backend.
void AddCpuBackend(c10d::ProcessGroup& group, std::unique_ptr<Group> core);
/// Returns the backend that AddCpuBackend installed; null if the group has another one.
CpuBackend* CpuBackendOf(const c10d::ProcessGroup& group);

}  // namespace mtrun::collectives
