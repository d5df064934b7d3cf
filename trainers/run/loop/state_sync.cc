#include "trainers/run/loop/state_sync.h"

#include <cstring>

#include <torch/cuda.h>

#include "absl/strings/str_cat.h"
#include "base/fast_digest.h"
#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/collectives/device_group.h"
#include "trainers/device/torch_status.h"

namespace mtrun::trainers {
namespace {

using checkpoints::Claim;

constexpr int64_t kClaimWords = 11;
constexpr char kRivalry[] = "mtrun/rivalry";  // distinguishes this error from other unrecoverable ones

absl::Status Rivalry(const std::string& who) {
  absl::Status status = absl::DataLossError(absl::StrCat(
      who,
      ": the replicas diverged and neither can be trusted, so the run stops. The same command "
      "continues from the newest checkpoint; if the newest checkpoints of two nodes differ, move one away"));
  status.SetPayload(kRivalry, absl::Cord());
  return status;
}

void ToWords(const Claim& claim, int64_t* words) {
  const uint64_t values[kClaimWords] = {claim.run,
                                        claim.position.generation,
                                        static_cast<uint64_t>(claim.position.steps),
                                        claim.position.evaluated ? uint64_t{1} : 0,
                                        claim.digest,
                                        claim.known,
                                        claim.saved.run,
                                        claim.saved.position.generation,
                                        static_cast<uint64_t>(claim.saved.position.steps),
                                        claim.saved.position.evaluated ? uint64_t{1} : 0,
                                        claim.gap};
  std::memcpy(words, values, sizeof values);
}

checkpoints::Position PositionFrom(const uint64_t* words) {
  return {.generation = words[0], .steps = static_cast<int64_t>(words[1]), .evaluated = words[2] != 0};
}

Claim FromWords(const int64_t* words) {
  uint64_t values[kClaimWords];
  std::memcpy(values, words, sizeof values);
  return {.run = values[0],
          .position = PositionFrom(values + 1),
          .digest = values[4],
          .known = values[5],
          .saved = {.run = values[6], .position = PositionFrom(values + 7)},
          .gap = values[10]};
}

void Broadcast(const collectives::ProcessGroup& group, int source, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const at::Tensor whole = tensor.detach().contiguous();
  collectives::Broadcast(group, whole, source);
  if (!whole.is_alias_of(tensor)) tensor.detach().copy_(whole);
}

void BroadcastText(const collectives::ProcessGroup& group, int rank, int source, std::string& text) {
  at::Tensor size = at::scalar_tensor(static_cast<int64_t>(text.size()), at::kLong);
  Broadcast(group, source, size);
  at::Tensor bytes = at::empty({size.item<int64_t>()}, at::kByte);
  if (rank == source) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  Broadcast(group, source, bytes);
  text.assign(static_cast<const char*>(bytes.const_data_ptr()), bytes.numel());
}

}  // namespace

absl::StatusOr<checkpoints::StatePlan> AgreeOnState(const collectives::ProcessGroup& group, int rank,
                                                    int world_size, const Claim& claim,
                                                    uint64_t service_generation) {
  at::Tensor words = at::zeros({world_size, kClaimWords}, at::kLong);
  ToWords(claim, words.data_ptr<int64_t>() + rank * kClaimWords);
  if (group) {
    MT_RETURN_IF_ERROR(TorchStatus("compare positions with the other workers", [&] {
      // Each row has one owner and zeros elsewhere, so a sum is a gather that every back-end has.
      collectives::AllReduce(group, words);
    }));
  }
  std::vector<Claim> claims;
  for (int r = 0; r < world_size; ++r)
    claims.push_back(FromWords(words.data_ptr<int64_t>() + r * kClaimWords));
  checkpoints::StatePlan plan = checkpoints::DecideSource(claims, service_generation);
  // If a checkpoint is above both, neither counts.
  if (plan.rival >= 0 && plan.readers.empty()) return Rivalry(checkpoints::DescribeRivals(claims, plan));
  return plan;
}

bool IsRivalry(const absl::Status& status) { return status.GetPayload(kRivalry).has_value(); }

absl::Status TakeOver(const collectives::ProcessGroup& group, int rank, int source, bool receives,
                      const NamedTensors& tensors, std::string& text) {
  if (!group) return absl::OkStatus();
  MT_RETURN_IF_ERROR(TorchStatus("take over the state of the run", [&] {
    torch::NoGradGuard no_grad;
    // An aborted NCCL may have written anything, so it must not write over what this member holds.
    const bool reads = rank == source || receives;
    for (const auto& [name, tensor] : tensors)
      Broadcast(group, source, reads ? tensor : at::empty_like(tensor.detach()));
    BroadcastText(group, rank, source, text);
    // This call can block for long. The broadcasts have marks (collectives::Waiting), so the thread is known
    // to wait, and everything that ends the group ends them.
    if (!tensors.empty() && tensors.front().second.is_cuda()) torch::cuda::synchronize();
  }));
  return collectives::Commit(group);  // device broadcasts do not report that they were aborted
}

uint64_t DigestOf(const NamedTensors& tensors) {
  uint64_t digest = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    digest = FastDigest(static_cast<const char*>(host.const_data_ptr()), host.nbytes(), digest);
  }
  return digest;
}

absl::StatusOr<std::optional<int>> FirstMember(const collectives::ProcessGroup& group, bool flag) {
  if (!group) return flag ? std::optional<int>(0) : std::nullopt;
  // The maximum is the lowest rank's value, because lower ranks have larger ones; 0 without the flag.
  const int64_t mine = flag ? group->getSize() - group->getRank() : 0;
  at::Tensor largest = at::scalar_tensor(mine, at::kLong);
  MT_RETURN_IF_ERROR(TorchStatus("agree with the other workers",
                                 [&] { collectives::AllReduce(group, largest, c10d::ReduceOp::MAX); }));
  const auto found = largest.item<int64_t>();
  return found == 0 ? std::nullopt : std::optional<int>(static_cast<int>(group->getSize() - found));
}

}  // namespace mtrun::trainers
