#include "trainers/collectives/all_reduce.h"

#include <vector>

namespace mtrun::collectives {

c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType reduce) {
  std::vector<at::Tensor> one{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce;
  return group->allreduce(one, options);
}

void AllReduce(const ProcessGroup& group, const at::Tensor& tensor, c10d::ReduceOp::RedOpType reduce) {
  StartAllReduce(group, tensor, reduce)->wait();
}

}  // namespace mtrun::collectives
