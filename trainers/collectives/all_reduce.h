// The all-reduce of one tensor, in place.
#pragma once

#include "trainers/collectives/cpu_group.h"

namespace mtrun::collectives {

/// Starts it; the work's wait() throws what the group throws. `tensor` may go out of scope meanwhile. Every
/// member makes the same sequence of calls.
c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

/// Starts it and waits.
void AllReduce(const ProcessGroup& group, const at::Tensor& tensor,
               c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM);

}  // namespace mtrun::collectives
