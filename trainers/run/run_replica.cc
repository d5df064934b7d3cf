#include "trainers/run/run_replica.h"

#include <algorithm>
#include <utility>

#include <torch/cuda.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/device/torch_status.h"
#include "trainers/run/fresh_start.h"
#include "trainers/run/lifecycle.h"
#include "trainers/run/state_sync.h"

namespace mtrun::trainers {
namespace {

using checkpoints::Claim;
using checkpoints::StatePlan;

std::vector<at::Tensor> Values(const NamedTensors& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& item : tensors) values.push_back(item.second);
  return values;
}

/// The highest generation that the run in `folder` has a step or a checkpoint of. Others may have gone on
/// while this member was away, and have ended, and the service that counted with them: what they did tells. A
/// ledger that cannot be read is told where it is opened for writing.
uint64_t HighestIn(const std::string& folder) {
  const std::string ledger = absl::StrCat(folder, "/", checkpoints::kLedgerFile);
  uint64_t highest = checkpoints::HighestGeneration(ledger).value_or(0);
  const auto saved = checkpoints::CompletePositions(checkpoints::RealFiles(), folder);
  if (!saved.ok()) return highest;
  for (const checkpoints::Position& position : *saved) highest = std::max(highest, position.generation);
  return highest;
}

/// What tensors hold while another member's values are on their way into them: a hand-over that breaks must
/// leave neither a half of another state nor less than there was.
class OwnValues {
 public:
  absl::Status Keep(const std::vector<at::Tensor>& tensors) {
    return TorchStatus("keep the own state", [&] {
      for (const at::Tensor& tensor : tensors)
        copies_.push_back(tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false,
                                             /*copy=*/true));
    });
  }
  void PutBack(const std::vector<at::Tensor>& tensors) const {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].detach().copy_(copies_[i]);
  }

 private:
  std::vector<at::Tensor> copies_;  // in the host's memory
};

}  // namespace

RunReplica::RunReplica(RunIdentity identity, TrainState& state)
    : identity_(std::move(identity)), state_(state) {}

NamedTensors RunReplica::Tensors() const {
  NamedTensors all = state_.Weights();
  for (auto& item : state_.Rest()) all.push_back(std::move(item));
  return all;
}

Claim RunReplica::MyClaim(bool alone) const {
  if (!exists()) return {.known = known_generation_};
  // Nobody compares a member's digest when there is no other.
  return {.run = run_,
          .position = position_,
          .digest = alone ? 0 : DigestOf(Values(Tensors())),
          .known = known_generation_};
}

std::string RunReplica::EncodeState() const {
  return checkpoints::EncodeRunState({run_, position_, identity_.run, ToJson(progress_)});
}

absl::Status RunReplica::AdoptState(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(text));
  MT_ASSIGN_OR_RETURN(progress_, RunProgressFromJson(state.progress));
  run_ = state.run;
  position_ = state.position;
  return absl::OkStatus();
}

absl::StatusOr<RunReplica::Begun> RunReplica::Enter(Membership& membership, const std::string& folder,
                                                    bool resume, const std::string& agent) {
  const Assignment& who = membership.assignment();
  const bool alone = who.world_size == 1;
  known_generation_ = std::max(known_generation_, HighestIn(folder));
  const auto agree = [&] {
    return AgreeOnState(membership.group(), who.rank, who.world_size, MyClaim(alone),
                        membership.generation());
  };
  Begun begun;
  MT_ASSIGN_OR_RETURN(StatePlan plan, agree());
  bool wanted = resume, anywhere = resume;
  if (plan.source < 0 && !resume) {
    wanted = who.first_on_node && IsBegunBy(folder, agent);
    MT_ASSIGN_OR_RETURN(const std::optional<int> first, FirstMember(membership.group(), wanted));
    anywhere = first.has_value();
  }
  Origin origin = OriginOf(plan, anywhere, /*looked=*/false);
  if (origin == Origin::kCheckpoint) {
    MT_ASSIGN_OR_RETURN(begun.resumed, LoadNewestOfNode(membership, folder, wanted));
    MT_ASSIGN_OR_RETURN(plan, agree());
    origin = OriginOf(plan, anywhere, /*looked=*/true);
  }
  begun.fresh = origin == Origin::kFresh;
  if (begun.fresh) {
    plan = FreshPlan(std::move(plan), who.world_size);
    if (who.rank == plan.source) run_ = RandomBits() | 1;
  }
  known_generation_ = plan.generation;  // another member may have begun where this one fails
  begun.received = Receives(plan, who.rank);
  MT_RETURN_IF_ERROR(Receive(membership, plan, begun.received));
  generation_ = plan.generation;
  begun.writer = plan.writer;
  if (!begun.received && begun.resumed.empty()) begun.resumed = resumed_;
  resumed_.clear();
  // The source's average goes with its weights; a run that begins has weights alone.
  if (begun.fresh) state_.RestartAverage();
  return begun;
}

absl::StatusOr<std::string> RunReplica::LoadNewestOfNode(Membership& membership, const std::string& folder,
                                                         bool wanted) {
  absl::StatusOr<std::string> loaded = std::string();
  if (wanted && membership.assignment().first_on_node) loaded = LoadNewest(folder);
  // A failure of one must not keep the others waiting.
  MT_ASSIGN_OR_RETURN(const std::optional<int> failed, FirstMember(membership.group(), !loaded.ok()));
  MT_RETURN_IF_ERROR(loaded.status());
  // The others have not failed: they regroup as after any death, and the one that did says why.
  if (failed)
    return absl::UnavailableError(absl::StrCat("rank ", *failed, " cannot continue from its checkpoint"));
  return loaded;
}

absl::Status RunReplica::Receive(Membership& membership, const StatePlan& plan, bool receives) {
  if (plan.receive.empty()) return absl::OkStatus();
  const int rank = membership.assignment().rank;
  if (std::count(plan.diverged.begin(), plan.diverged.end(), rank) != 0) {
    log::Warning("this worker's state at ", checkpoints::ToText(position_), " is of another run than rank ",
                 plan.source, "'s: it takes that one");
  }
  std::string text = rank == plan.source ? EncodeState() : "";
  const std::vector<at::Tensor> tensors = Values(Tensors());
  OwnValues own;
  if (receives) MT_RETURN_IF_ERROR(own.Keep(tensors));
  absl::Status taken = TakeOver(membership.group(), rank, plan.source, receives, tensors, text);
  if (receives && taken.ok()) taken = AdoptState(text);
  if (!receives || taken.ok()) return taken;
  // What is still on its way to a device must not come behind the own values.
  const absl::Status back = TorchStatus("take the own state again", [&] {
    if (!tensors.empty() && tensors.front().is_cuda()) torch::cuda::synchronize();
    own.PutBack(tensors);
  });
  if (!back.ok()) run_ = 0;
  return taken;
}

absl::StatusOr<std::string> RunReplica::LoadNewest(const std::string& folder) {
  MT_ASSIGN_OR_RETURN(const checkpoints::Search search,
                      checkpoints::FindNewest(checkpoints::RealFiles(), folder));
  for (const std::string& passed : search.passed_over) log::Warning("checkpoint passed over: ", passed);
  if (!search.newest) return std::string();
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(search.newest->state));
  const absl::Status same = CheckContinues(identity_, state.identity);
  if (!same.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(search.newest->path, " is a checkpoint of another run: ", same.message(),
                     ". Give the same settings, another --model_folder, or --resume=false"));
  }
  const absl::Status restored = Restore(*search.newest, state_.Weights(), state_.Rest());
  if (!restored.ok()) return Annotate(restored, search.newest->path);
  MT_RETURN_IF_ERROR(AdoptState(search.newest->state));
  progress_.finished = false;  // this command may ask for more epochs
  resumed_ = search.newest->path;
  return resumed_;
}

absl::StatusOr<checkpoints::Snapshot> RunReplica::TakeSnapshot() {
  return memory_.Take(position_.steps, state_.Weights(), state_.Rest(), EncodeState());
}

std::optional<checkpoints::Identity> IdentityOfNewest(const std::string& folder) {
  const auto text = checkpoints::StateOfNewest(checkpoints::RealFiles(), folder);
  if (!text) return std::nullopt;
  const auto state = checkpoints::DecodeRunState(*text);
  if (!state.ok()) return std::nullopt;
  return state->identity;
}

std::optional<datasets::BatchPlan> BatchOfNewest(const std::string& folder) {
  const std::optional<checkpoints::Identity> identity = IdentityOfNewest(folder);
  if (!identity) return std::nullopt;
  datasets::BatchPlan plan;
  const auto number = [&](const char* name, int64_t& value) {
    const auto found = identity->find(name);
    return found != identity->end() && absl::SimpleAtoi(found->second, &value) && value > 0;
  };
  if (!number("global_batch", plan.global_batch) || !number("batch_size", plan.micro_batch))
    return std::nullopt;
  return plan;
}

}  // namespace mtrun::trainers
