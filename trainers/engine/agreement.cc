#include "trainers/engine/agreement.h"

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {

absl::Status CheckAgreement(const collectives::ProcessGroup& group,
                            const std::vector<std::pair<std::string, std::string>>& items) {
  if (!group) return absl::OkStatus();
  const auto n = static_cast<int64_t>(items.size());
  // The largest h and the largest -h over the members: all are equal where they sum to zero.
  at::Tensor bounds = at::empty({2 * n}, at::kLong);
  int64_t* h = bounds.data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    h[i] = static_cast<int64_t>(Fnv1a(items[i].second) >> 1);
    h[n + i] = -h[i];
  }
  MT_RETURN_IF_ERROR(TorchStatus("compare with the other workers", [&] {
    std::vector<at::Tensor> one{bounds};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    group->allreduce(one, options)->wait();
  }));
  std::vector<std::string> differing;
  for (int64_t i = 0; i < n; ++i) {
    if (h[i] + h[n + i] != 0)
      differing.push_back(absl::StrCat(items[i].first, " (here: ", items[i].second, ")"));
  }
  if (differing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the workers of this job differ in ", absl::StrJoin(differing, ", ")));
}

}  // namespace mtrun::engine
