#include "trainers/run/run_replica.h"

#include <algorithm>
#include <tuple>
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
#include "trainers/checkpoints/writer_mark.h"
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

/// Bounds the random distance between the generations of branches that do not know of each other.
constexpr uint64_t kMaxGap = 1 << 16;

/// Whether other disks may hold later steps of the run in `folder` than it tells of: several nodes have
/// worked on the run, or its records are on another node.
bool MayHaveOtherBranches(const std::string& folder) {
  const auto run = checkpoints::RunOfLedger(absl::StrCat(folder, "/", checkpoints::kLedgerFile));
  return checkpoints::HasAnyWriterMark(folder) || !run.ok() || !run->has_value();
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

/// Others may have gone on while this member was away, and have ended, and the service that counted with
/// them: the folder tells what they did. A ledger that cannot be read is reported when it is opened for
/// writing.
RunReplica::FolderView RunReplica::LookInto(const std::string& folder) {
  const std::string ledger = absl::StrCat(folder, "/", checkpoints::kLedgerFile);
  FolderView view{.known = checkpoints::HighestGeneration(ledger).value_or(0)};
  const auto all = checkpoints::CompletePositions(checkpoints::RealFiles(), folder);
  if (!all.ok()) return view;
  for (const checkpoints::SavedPosition& saved : *all) {
    view.known = std::max(view.known, saved.position.generation);
    if (saved.run != 0 && (view.saved.run == 0 || saved.position > view.saved.position)) view.saved = saved;
  }
  return view;
}

Claim RunReplica::MyClaim(bool alone, const std::string& folder) const {
  if (!exists()) return {.known = known_generation_};
  // Nothing compares a member's digest if there is no other member.
  return {.run = run_,
          .position = position_,
          .digest = alone ? 0 : DigestOf(Values(Tensors())),
          .known = known_generation_,
          .gap = may_be_behind_ && MayHaveOtherBranches(folder) ? 1 + RandomBits() % kMaxGap : 0};
}

std::string RunReplica::EncodeState() const {
  return checkpoints::EncodeRunState({run_, position_, identity_.run, ToJson(progress_), lineage_});
}

absl::Status RunReplica::AdoptState(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(text));
  MT_ASSIGN_OR_RETURN(progress_, RunProgressFromJson(state.progress));
  run_ = state.run;
  position_ = state.position;
  lineage_ = state.lineage;
  return absl::OkStatus();
}

absl::StatusOr<StatePlan> RunReplica::Agree(const Membership& membership, const std::string& folder,
                                            const checkpoints::SavedPosition& saved) const {
  const Assignment& who = membership.assignment();
  Claim claim = MyClaim(who.world_size == 1, folder);
  if (who.first_on_node) claim.saved = saved;  // the others of the node have the same folder
  return AgreeOnState(membership.group(), who.rank, who.world_size, claim, membership.generation());
}

absl::StatusOr<std::pair<bool, bool>> RunReplica::WantsCheckpoints(const Membership& membership,
                                                                   const std::string& folder,
                                                                   const std::string& agent) const {
  const bool wanted = membership.assignment().first_on_node && IsBegunBy(folder, agent);
  MT_ASSIGN_OR_RETURN(const std::optional<int> first, FirstMember(membership.group(), wanted));
  return std::pair(wanted, first.has_value());
}

absl::StatusOr<RunReplica::Begun> RunReplica::Enter(Membership& membership, const std::string& folder,
                                                    bool resume, const std::string& agent) {
  const Assignment& who = membership.assignment();
  FolderView view = LookInto(folder);
  if (view.saved == unreadable_) view.saved = {};
  known_generation_ = std::max(known_generation_, view.known);
  may_be_behind_ = exists() && (may_be_behind_ || membership.lease_lapsed());
  const checkpoints::Position before = position_;
  Begun begun{.held = exists()};
  MT_ASSIGN_OR_RETURN(StatePlan plan, Agree(membership, folder, view.saved));
  bool wanted = resume, anywhere = resume;
  if (plan.source < 0 && !resume) {
    MT_ASSIGN_OR_RETURN(std::tie(wanted, anywhere), WantsCheckpoints(membership, folder, agent));
  }
  Origin origin = OriginOf(plan, anywhere, /*looked=*/false);
  if (origin == Origin::kCheckpoint) {
    const bool reads = ReadsCheckpoint(plan, who.rank, who.first_on_node, wanted);
    const auto above = plan.source < 0 ? std::nullopt : std::optional(plan.truth);
    MT_ASSIGN_OR_RETURN(begun.resumed, LoadNewestOfNode(membership, folder, reads, above));
    if (reads && begun.resumed.empty()) unreadable_ = view.saved;
    MT_ASSIGN_OR_RETURN(plan, Agree(membership, folder, {}));
    origin = OriginOf(plan, anywhere, /*looked=*/true);
  }
  begun.fresh = origin == Origin::kFresh;
  if (begun.fresh) {
    plan = FreshPlan(std::move(plan), who.world_size);
    if (who.rank == plan.source) run_ = RandomBits() | 1;
  }
  known_generation_ = plan.generation;  // another member may have begun where this one fails
  begun.received = Receives(plan, who.rank);
  if (begun.held && plan.truth != before && (plan.truth.generation != before.generation || !begun.received)) {
    log::Warning("the state that this worker held, ", checkpoints::ToText(before),
                 ", is discarded: the run has gone further without it, to ", checkpoints::ToText(plan.truth));
  }
  MT_RETURN_IF_ERROR(Receive(membership, plan, begun.received));
  generation_ = plan.generation;
  begun.writer = plan.writer;
  if (!begun.received && begun.resumed.empty()) begun.resumed = resumed_;
  resumed_.clear();
  may_be_behind_ = false;
  // The source's average goes with its weights; a run that begins has weights alone.
  if (begun.fresh) state_.RestartAverage();
  return begun;
}

absl::StatusOr<std::string> RunReplica::LoadNewestOfNode(Membership& membership, const std::string& folder,
                                                         bool reads,
                                                         const std::optional<checkpoints::Position>& above) {
  absl::StatusOr<std::string> loaded = std::string();
  if (reads) loaded = above ? LoadAbove(folder, *above) : LoadNewest(folder);
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
  MT_RETURN_IF_ERROR(Adopt(*search.newest));
  return resumed_;
}

absl::StatusOr<std::string> RunReplica::LoadAbove(const std::string& folder,
                                                  const checkpoints::Position& above) {
  const auto search = checkpoints::FindNewest(checkpoints::RealFiles(), folder, above);
  if (!search.ok()) log::Warning("checkpoints passed over: ", std::string(search.status().message()));
  if (!search.ok()) return std::string();
  for (const std::string& passed : search->passed_over) log::Warning("checkpoint passed over: ", passed);
  if (!search->newest) return std::string();
  const std::vector<at::Tensor> tensors = Values(Tensors());
  OwnValues own;
  MT_RETURN_IF_ERROR(own.Keep(tensors));
  const absl::Status adopted = Adopt(*search->newest);
  if (adopted.ok()) return resumed_;
  log::Warning("checkpoint passed over: ", std::string(adopted.message()));
  MT_RETURN_IF_ERROR(TorchStatus("take the own state again", [&] { own.PutBack(tensors); }));
  return std::string();
}

absl::Status RunReplica::Adopt(const checkpoints::Checkpoint& checkpoint) {
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(checkpoint.state));
  const absl::Status same = CheckContinues(identity_, state.identity);
  if (!same.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.path, " is a checkpoint of another run: ", same.message(),
                     ". Give the same settings, another --model_folder, or --resume=false"));
  }
  const absl::Status restored = Restore(checkpoint, state_.Weights(), state_.Rest());
  if (!restored.ok()) return Annotate(restored, checkpoint.path);
  MT_RETURN_IF_ERROR(AdoptState(checkpoint.state));
  progress_.finished = false;  // this command may ask for more epochs
  resumed_ = checkpoint.path;
  may_be_behind_ = true;
  return absl::OkStatus();
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
