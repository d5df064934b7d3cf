#include "trainers/run/loop/run_replica.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/writer_mark.h"
#include "trainers/device/torch_status.h"
#include "trainers/run/files/fresh_start.h"
#include "trainers/run/loop/state_sync.h"
#include "trainers/run/rules/lifecycle.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

using checkpoints::Claim;
using checkpoints::StatePlan;

/// Maximum random distance between the generations of branches that do not know of each other.
constexpr uint64_t kMaxGap = 1 << 16;
constexpr int64_t kMostThreads = 4096;  // beyond that, a state is malformed

/// Returns whether other disks may hold later steps of the run in `folder` than it shows: if several nodes
/// have worked on the run, or if its records are on another node.
bool MayHaveOtherBranches(const std::string& folder) {
  const auto run = checkpoints::RunOfLedger(absl::StrCat(folder, "/", checkpoints::kLedgerFile));
  return checkpoints::IsOfSeveralNodes(folder) || !run.ok() || !run->has_value();
}

/// Copies a member's own tensors to the host's memory while it receives another member's. If the hand-over
/// breaks, the member must have neither half of another state nor less than before.
absl::Status Keep(const NamedTensors& tensors, NamedTensors& copies) {
  return TorchStatus("keep a copy of the state", [&] {
    for (const auto& [name, tensor] : tensors)
      copies.emplace_back(name, tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false,
                                                   /*copy=*/true));
  });
}

/// Restores the tensors from their copies. Copies that are still on their way to a device must not arrive
/// after the restored values.
absl::Status PutBack(const NamedTensors& copies, const NamedTensors& tensors) {
  return TorchStatus("restore the state", [&] {
    if (!tensors.empty() && tensors.front().second.is_cuda()) torch::cuda::synchronize();
    return CopyTensors(copies, tensors);
  });
}

}  // namespace

RunReplica::RunReplica(RunIdentity identity, TrainState& state, std::string folder, TimePoint start)
    : identity_(std::move(identity)),
      state_(state),
      folder_(std::move(folder)),
      start_(start),
      run_began_(start) {
  progress_.threads = at::get_num_threads();
}

NamedTensors RunReplica::Tensors() const {
  NamedTensors all = state_.Weights();
  for (auto& item : state_.Rest()) all.push_back(std::move(item));
  return all;
}

/// Returns how far others got while this member was away. If they and the service that counted their
/// generations have ended, only the folder shows it. Opening an unreadable ledger for writing reports it.
RunReplica::FolderView RunReplica::LookIntoFolder() const {
  const std::string ledger = absl::StrCat(folder_, "/", checkpoints::kLedgerFile);
  FolderView view{.known = checkpoints::EndOfLedger(ledger).value_or(checkpoints::LedgerEnd()).generation};
  const auto all = checkpoints::CompletePositions(checkpoints::RealFiles(), folder_);
  if (!all.ok()) return view;
  for (const checkpoints::SavedPosition& saved : *all) {
    view.known = std::max(view.known, saved.position.generation);
    if (saved.run != 0 && (view.saved.run == 0 || saved.position > view.saved.position)) view.saved = saved;
  }
  return view;
}

Claim RunReplica::MyClaim(bool alone) const {
  if (!exists()) return {.known = known_generation_};
  // The digest of a single member is not compared.
  return {.run = run_,
          .position = position_,
          .digest = alone ? 0 : DigestOf(Tensors()),
          .known = known_generation_,
          .gap = may_be_behind_ && MayHaveOtherBranches(folder_) ? 1 + RandomBits() % kMaxGap : 0};
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

absl::StatusOr<StatePlan> RunReplica::Agree(const Membership& membership,
                                            const checkpoints::SavedPosition& saved) const {
  const Assignment& who = membership.assignment();
  Claim claim = MyClaim(who.world_size == 1);
  if (who.first_on_node) claim.saved = saved;  // the others of the node have the same folder
  return AgreeOnState(membership.group(), who.rank, who.world_size, claim, membership.generation());
}

absl::StatusOr<std::pair<bool, bool>> RunReplica::WantsCheckpoints(const Membership& membership,
                                                                   const std::string& agent) const {
  const bool wanted = membership.assignment().first_on_node && IsBegunBy(folder_, agent);
  MT_ASSIGN_OR_RETURN(const std::optional<int> first, FirstMember(membership.group(), wanted));
  return std::pair(wanted, first.has_value());
}

absl::StatusOr<RunReplica::Begun> RunReplica::Enter(Membership& membership, bool resume,
                                                    const std::string& agent) {
  const Assignment& who = membership.assignment();
  FolderView view = LookIntoFolder();
  if (view.saved == unreadable_) view.saved = {};
  known_generation_ = std::max(known_generation_, view.known);
  may_be_behind_ = exists() && (may_be_behind_ || membership.lease_lapsed());
  const checkpoints::Position before = position_;
  Begun begun;
  begun.held = exists() && resumed_.empty();
  if (begun.held) progress_.seconds = seconds();  // a receiver continues from it
  MT_ASSIGN_OR_RETURN(StatePlan plan, Agree(membership, view.saved));
  bool wanted = resume, anywhere = resume;
  if (plan.source < 0 && !resume) {
    MT_ASSIGN_OR_RETURN(std::tie(wanted, anywhere), WantsCheckpoints(membership, agent));
  }
  Origin origin = OriginOf(plan, anywhere, /*looked=*/false);
  if (origin == Origin::kCheckpoint) {
    const bool reads = ReadsCheckpoint(plan, who.rank, who.first_on_node, wanted);
    const auto above = plan.source < 0 ? std::nullopt : std::optional(plan.truth);
    MT_ASSIGN_OR_RETURN(begun.resumed, LoadNewestOfNode(membership, reads, above));
    if (reads && begun.resumed.empty()) unreadable_ = view.saved;
    MT_ASSIGN_OR_RETURN(plan, Agree(membership, {}));
    origin = OriginOf(plan, anywhere, /*looked=*/true);
  }
  begun.fresh = origin == Origin::kFresh;
  if (begun.fresh) {
    plan = FreshPlan(std::move(plan), who.world_size);
    if (who.rank == plan.source) run_ = RandomBits() | 1;
  }
  known_generation_ = plan.generation;  // if this member fails now, another one may have begun it
  begun.received = Receives(plan, who.rank);
  if (begun.held && plan.truth != before && (plan.truth.generation != before.generation || !begun.received)) {
    log::Warning("discarding the state of this worker, ", checkpoints::ToText(before),
                 ": the run has continued without it, to ", checkpoints::ToText(plan.truth));
  }
  // Set the mark before the hand-over, because another node may continue the state afterwards. If the disk
  // does not take the mark, it takes no steps either.
  if (who.nodes > 1 && who.first_on_node) checkpoints::MarkSeveralNodes(folder_).IgnoreError();
  MT_RETURN_IF_ERROR(Receive(membership, plan, begun.received));
  generation_ = plan.generation;
  begun.writer = plan.writer;
  if (!begun.received && begun.resumed.empty()) begun.resumed = resumed_;
  resumed_.clear();
  may_be_behind_ = false;
  // A checkpoint's run paused until this process began; a member's run continued.
  const TimePoint now = begun.resumed.empty() || begun.held ? MonotonicNow() : start_;
  if (begun.received || !begun.resumed.empty())
    run_began_ = begun.fresh ? start_ : now - FromSeconds(progress_.seconds);
  // The source's average comes with its weights; a run that begins has only weights.
  if (begun.fresh) state_.RestartAverage();
  return begun;
}

absl::StatusOr<std::string> RunReplica::LoadNewestOfNode(Membership& membership, bool reads,
                                                         const std::optional<checkpoints::Position>& above) {
  absl::StatusOr<std::string> loaded = std::string();
  if (reads) loaded = LoadNewest(above);
  // If one member fails, the others must not wait for it.
  MT_ASSIGN_OR_RETURN(const std::optional<int> failed, FirstMember(membership.group(), !loaded.ok()));
  MT_RETURN_IF_ERROR(loaded.status());
  // If another member failed, this one regroups as after a crash; the failed one reports the reason.
  if (failed)
    return absl::UnavailableError(absl::StrCat("rank ", *failed, " cannot continue from its checkpoint"));
  return loaded;
}

absl::Status RunReplica::Receive(Membership& membership, const StatePlan& plan, bool receives) {
  if (plan.receive.empty()) return absl::OkStatus();
  const int rank = membership.assignment().rank;
  if (std::count(plan.diverged.begin(), plan.diverged.end(), rank) != 0) {
    log::Warning("this worker's state at ", checkpoints::ToText(position_), " is from another run than rank ",
                 plan.source, "'s: taking that one");
  }
  std::string text = rank == plan.source ? EncodeState() : "";
  const NamedTensors tensors = Tensors();
  NamedTensors own;
  if (receives) MT_RETURN_IF_ERROR(Keep(tensors, own));
  absl::Status taken = TakeOver(membership.group(), rank, plan.source, receives, tensors, text);
  if (receives && taken.ok()) taken = AdoptState(text);
  if (receives && !taken.ok() && !PutBack(own, tensors).ok()) run_ = 0;
  return taken;
}

absl::StatusOr<std::string> RunReplica::LoadNewest(const std::optional<checkpoints::Position>& above) {
  const auto search = checkpoints::FindNewest(checkpoints::RealFiles(), folder_, above);
  if (!search.ok() && !above) return search.status();
  if (!search.ok()) log::Warning("skipping checkpoints: ", std::string(search.status().message()));
  if (!search.ok()) return std::string();
  for (const std::string& passed : search->passed_over) log::Warning("skipping checkpoint ", passed);
  if (!search->newest) return std::string();
  const NamedTensors tensors = Tensors();
  NamedTensors own;
  if (above) MT_RETURN_IF_ERROR(Keep(tensors, own));
  const absl::Status adopted = Adopt(*search->newest);
  if (adopted.ok()) return resumed_;
  if (!above) return adopted;
  log::Warning("skipping checkpoint ", std::string(adopted.message()));
  MT_RETURN_IF_ERROR(PutBack(own, tensors));
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
  if (const std::string other = DescribeOtherPixels(identity_, state.identity); !other.empty())
    log::Warning(other);
  const absl::Status restored = Restore(checkpoint, state_.Weights(), state_.Rest());
  if (!restored.ok()) return Annotate(restored, checkpoint.path);
  MT_RETURN_IF_ERROR(AdoptState(checkpoint.state));
  progress_.finished = false;  // this command may ask for more epochs
  resumed_ = checkpoint.path;
  may_be_behind_ = true;
  return absl::OkStatus();
}

void RunReplica::SettleThreads(bool given) {
  const int64_t own = at::get_num_threads();
  if (!state_.trained().front().is_cpu() || progress_.threads == own) return;
  if (given || progress_.threads <= 0 || progress_.threads > kMostThreads) {
    progress_.threads = own;
    return;
  }
  at::set_num_threads(static_cast<int>(progress_.threads));
  log::Info("computes with ", Counted(progress_.threads, "thread"), ", as the run began, not ", own,
            ": its bits depend on them; --threads ", own, " changes them");
}

absl::StatusOr<checkpoints::Snapshot> RunReplica::TakeSnapshot() {
  progress_.seconds = seconds();
  return memory_.Take(position_.steps, state_.Weights(), state_.Rest(), EncodeState());
}

}  // namespace mtrun::trainers
