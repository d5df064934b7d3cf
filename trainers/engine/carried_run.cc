#include "trainers/engine/carried_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/engine/regroup.h"

namespace mtrun::engine {
namespace {

using checkpoints::Claim;
using checkpoints::StatePlan;

/// A restart may ask for a longer or a shorter run.
const std::set<std::string>& MayChange() {
  static const std::set<std::string> names = {"epochs", "max_steps"};
  return names;
}

std::vector<at::Tensor> Values(const NamedTensors& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& item : tensors) values.push_back(item.second);
  return values;
}

}  // namespace

CarriedRun::CarriedRun(checkpoints::Identity identity, Learner& learner)
    : identity_(std::move(identity)), learner_(learner) {}

NamedTensors CarriedRun::Tensors() const {
  NamedTensors all = learner_.Weights();
  for (auto& item : learner_.Rest()) all.push_back(std::move(item));
  return all;
}

Claim CarriedRun::MyClaim(bool alone) const {
  if (!exists()) return {};
  // Nobody compares a member's digest when there is no other.
  return {.run = run_, .position = position_, .digest = alone ? 0 : DigestOf(Values(Tensors()))};
}

std::string CarriedRun::EncodeState() const {
  return checkpoints::EncodeRunState({run_, position_, identity_, ToJson(progress_)});
}

absl::Status CarriedRun::AdoptState(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(text));
  MT_ASSIGN_OR_RETURN(progress_, RunProgressFromJson(state.progress));
  run_ = state.run;
  position_ = state.position;
  return absl::OkStatus();
}

absl::StatusOr<CarriedRun::Begun> CarriedRun::Enter(Team& team, const std::string& folder, bool resume) {
  const Assignment& who = team.assignment();
  const bool alone = who.world_size == 1;
  const auto agree = [&] {
    return AgreeOnState(team.group(), who.rank, who.world_size, MyClaim(alone), team.generation());
  };
  Begun begun;
  MT_ASSIGN_OR_RETURN(StatePlan plan, agree());
  if (plan.source < 0 && resume) {
    // One reader a node; a lost agreement about it must not keep the others waiting.
    absl::StatusOr<std::string> loaded = std::string();
    if (who.first_on_node) loaded = LoadNewest(folder);
    MT_ASSIGN_OR_RETURN(const bool failed, AnyMember(team.group(), !loaded.ok()));
    MT_RETURN_IF_ERROR(loaded.status());
    if (failed) return absl::FailedPreconditionError("another worker could not go on from its checkpoint");
    begun.resumed = *loaded;
    MT_ASSIGN_OR_RETURN(plan, agree());
  }
  if (plan.source < 0) {
    begun.fresh = true;
    plan.source = 0;
    for (int rank = 1; rank < who.world_size; ++rank) plan.receive.push_back(rank);
    if (who.rank == 0) run_ = RandomBits() | 1;
  }
  begun.received = std::count(plan.receive.begin(), plan.receive.end(), who.rank) != 0;
  MT_RETURN_IF_ERROR(Receive(team, plan, begun.received));
  generation_ = plan.generation;
  begun.keeper = plan.keeper;
  // The source's average goes with its weights; a run that begins has weights alone.
  if (begun.fresh) learner_.RestartAverage();
  return begun;
}

absl::Status CarriedRun::Receive(Team& team, const StatePlan& plan, bool receives) {
  if (plan.receive.empty()) return absl::OkStatus();
  const int rank = team.assignment().rank;
  if (std::count(plan.diverged.begin(), plan.diverged.end(), rank) != 0) {
    log::Warning("this worker's state at ", checkpoints::ToText(position_), " differs from rank ",
                 plan.source, "'s; taking that one");
  }
  std::string text = rank == plan.source ? EncodeState() : "";
  if (receives) run_ = 0;  // until all of it has come
  MT_RETURN_IF_ERROR(TakeOver(team.group(), rank, plan.source, Values(Tensors()), text));
  return receives ? AdoptState(text) : absl::OkStatus();
}

absl::StatusOr<std::string> CarriedRun::LoadNewest(const std::string& folder) {
  MT_ASSIGN_OR_RETURN(const checkpoints::Search search,
                      checkpoints::FindNewest(checkpoints::RealFiles(), folder));
  for (const std::string& passed : search.passed_over) log::Warning("checkpoint passed over: ", passed);
  if (!search.newest) return std::string();
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(search.newest->state));
  const absl::Status same = checkpoints::CheckSameRun(identity_, state.identity, MayChange());
  if (!same.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(search.newest->path, " is a checkpoint of another run: ", same.message(),
                     ". Give the same settings, another --model_folder, or --resume=false"));
  }
  const absl::Status restored = Restore(*search.newest, learner_.Weights(), learner_.Rest());
  if (!restored.ok()) return Annotate(restored, search.newest->path);
  MT_RETURN_IF_ERROR(AdoptState(search.newest->state));
  progress_.finished = false;  // this command may ask for more epochs
  return search.newest->path;
}

absl::StatusOr<checkpoints::Snapshot> CarriedRun::TakeSnapshot() {
  return memory_.Take(position_.steps, learner_.Weights(), learner_.Rest(), EncodeState());
}

std::optional<datasets::BatchPlan> BatchOfNewest(const std::string& folder) {
  checkpoints::Files& files = checkpoints::RealFiles();
  const auto steps = checkpoints::CompleteSteps(files, folder);
  if (!steps.ok() || steps->empty()) return std::nullopt;
  const auto text = files.Read(
      absl::StrCat(folder, "/", checkpoints::StepFolder(steps->back()), "/", checkpoints::kStateFile));
  if (!text.ok()) return std::nullopt;
  const auto state = checkpoints::DecodeRunState(*text);
  if (!state.ok()) return std::nullopt;
  datasets::BatchPlan plan;
  const auto number = [&](const char* name, int64_t& value) {
    const auto found = state->identity.find(name);
    return found != state->identity.end() && absl::SimpleAtoi(found->second, &value) && value > 0;
  };
  if (!number("global_batch", plan.global_batch) || !number("batch_size", plan.micro_batch))
    return std::nullopt;
  return plan;
}

}  // namespace mtrun::engine
