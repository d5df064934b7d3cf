#include "trainers/run/loop/agreement.h"

#include <algorithm>
#include <vector>

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/device/torch_status.h"

namespace mtrun::trainers {
namespace {

absl::Status Largest(const collectives::ProcessGroup& group, const at::Tensor& tensor) {
  return TorchStatus("compare with the other workers",
                     [&] { collectives::AllReduce(group, tensor, c10d::ReduceOp::MAX); });
}

/// Returns the claims of all members by rank; none is longer than `longest` bytes.
absl::StatusOr<std::vector<std::string>> GatherClaims(const collectives::ProcessGroup& group,
                                                      const std::string& claim, int64_t longest) {
  // Each member fills its own row; the rest is zeros.
  at::Tensor all = at::zeros({group->getSize(), longest}, at::kByte);
  std::copy(claim.begin(), claim.end(), all[group->getRank()].data_ptr<uint8_t>());
  MT_RETURN_IF_ERROR(Largest(group, all));
  std::vector<std::string> claims;
  for (int rank = 0; rank < group->getSize(); ++rank) {
    const uint8_t* row = all[rank].const_data_ptr<uint8_t>();
    claims.emplace_back(row, std::find(row, row + longest, 0));
  }
  return claims;
}

}  // namespace

absl::StatusOr<Machines> CheckAgreement(const collectives::ProcessGroup& group, const RunIdentity& identity,
                                        const std::string& version) {
  if (!group) return MachinesOf({identity.machine});
  const std::string claim = EncodeClaim(identity, version);
  // The largest h and the largest -h over the members sum to zero if all h are equal.
  const auto h = static_cast<int64_t>(Fnv1a(claim) >> 1);
  const at::Tensor bounds = at::tensor({h, -h, static_cast<int64_t>(claim.size())}, at::kLong);
  MT_RETURN_IF_ERROR(Largest(group, bounds));
  const int64_t* largest = bounds.const_data_ptr<int64_t>();
  if (largest[0] + largest[1] == 0) return MachinesOf({identity.machine});
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> claims, GatherClaims(group, claim, largest[2]));
  const std::string differences = DescribeDifferences(claims);
  if (differences.empty()) return MachinesIn(claims);
  return absl::FailedPreconditionError(absl::StrCat("the workers of this job differ in ", differences));
}

}  // namespace mtrun::trainers
