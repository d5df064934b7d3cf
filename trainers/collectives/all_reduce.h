// Collectives on one tensor, in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/tree_sum.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

/// Starts an all-reduce; all members must make the same calls in the same order. The work's wait() throws the
/// group's errors; `tensor` may go out of scope before it.
c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

/// Starts a CPU tensor's all-reduce that also exchanges notes: after wait(), notes->all has every member's.
c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              std::shared_ptr<Notes> notes);

/// Sums the members' partial sums in the order of `plan`. `partials`: CPU tensor [n, count] with this
/// member's, n >= 1; the sum replaces partials[0]. `notes` as above, or null.
c10::intrusive_ptr<c10d::Work> StartSumOfPartials(const ProcessGroup& group, const at::Tensor& partials,
                                                  std::shared_ptr<const TreePlan> plan,
                                                  std::shared_ptr<Notes> notes = nullptr);

/// Returns the notes of all members, by rank. Throws the group's errors.
std::vector<std::string> AllGather(const ProcessGroup& group, const std::string& note);

/// All-reduces `tensor` and waits for the result. If it is a device's tensor, only the device waits.
void AllReduce(const ProcessGroup& group, const at::Tensor& tensor,
               c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

/// Copies rank `root`'s values to all members; later work on a device's tensor sees them.
void Broadcast(const ProcessGroup& group, const at::Tensor& tensor, int root);

}  // namespace mtrun::collectives
