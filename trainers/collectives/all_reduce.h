// Collectives of one tensor, in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

/// Starts it; the work's wait() throws what the group throws. `tensor` may go out of scope meanwhile. Every
/// member makes the same sequence of calls.
c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

/// The same of a CPU tensor; beside it everybody hears everybody's note: notes->all is there after wait().
c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              std::shared_ptr<Notes> notes);

/// Everybody's note, by rank. Throws what the group throws.
std::vector<std::string> AllGather(const ProcessGroup& group, const std::string& note);

/// Starts it and waits, with a device's tensor on the device.
void AllReduce(const ProcessGroup& group, const at::Tensor& tensor,
               c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

/// Rank `root`'s values for all. Of a device's tensor what comes later on the device finds them.
void Broadcast(const ProcessGroup& group, const at::Tensor& tensor, int root);

}  // namespace mtrun::collectives
