#include "trainers/run/rules/lifecycle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

using checkpoints::Position;
using Cause = Decision::Cause;

namespace {

/// Names of the actions, in the order of Action.
constexpr const char* kActions[] = {"step", "evaluate", "save", "regroup", "leave", "finish"};

}  // namespace

void Lifecycle::Enter(int world_size, bool elastic, bool saves, bool finished) {
  Lifecycle entered(rules_, saved_at_);
  entered.world_size_ = world_size;
  entered.elastic_ = elastic;
  entered.saves_ = saves;
  entered.finished_ = finished;
  *this = entered;
}

Decision Lifecycle::Next(const Position& at, bool generation_over, TimePoint now) const {
  if (const auto left = AfterVotes(at)) return *left;
  if (const auto save = SaveIsDue(at, now)) return *save;
  if (votes_.regrouping > 0) return {Action::kRegroup, Cause::kWorkersChange};
  const bool evaluate = EvaluationIsDue(at);
  if (!evaluate && at.steps >= end_) {
    if (!finished_ && NeedsSave(at)) return {Action::kSave, Cause::kBeforeEnd};
    return {Action::kFinish, Cause::kNext};
  }
  // A single worker has no group that would break.
  if (generation_over) return {Action::kRegroup, Cause::kGenerationOver};
  return {evaluate ? Action::kEvaluate : Action::kStep, Cause::kNext};
}

std::optional<Decision> Lifecycle::AfterVotes(const Position& at) const {
  if (votes_.leaving == 0) return std::nullopt;
  // If no generation can follow, no member can continue: all stop, whichever was told to leave first.
  if (votes_.leaving >= world_size_ || !elastic_) {
    if (NeedsSave(at)) return Decision{Action::kSave, Cause::kBeforeEnd};
    return Decision{Action::kLeave, Cause::kAllLeave};
  }
  if (wanted_to_leave_) return Decision{Action::kLeave, Cause::kVotedToLeave};
  return Decision{Action::kRegroup, Cause::kOthersLeave};
}

std::optional<Decision> Lifecycle::SaveIsDue(const Position& at, TimePoint now) const {
  if (!moved_ || !NeedsSave(at) || EvaluationIsDue(at)) return std::nullopt;
  const int64_t each = rules_.steps_per_epoch;
  if (at.evaluated && rules_.save_epochs > 0 && at.steps % each == 0 &&
      (at.steps / each) % rules_.save_epochs == 0) {
    return Decision{Action::kSave, Cause::kEveryEpochs};
  }
  if (rules_.save_steps > 0 && at.steps % rules_.save_steps == 0)
    return Decision{Action::kSave, Cause::kEverySteps};
  if (rules_.save_interval > Duration::zero() && now - saved_at_ >= rules_.save_interval)
    return Decision{Action::kSave, Cause::kEveryInterval};
  return std::nullopt;
}

void Lifecycle::Stepped(VoteCount votes, bool wanted_to_leave) {
  moved_ = true;
  votes_ = votes;
  wanted_to_leave_ = wanted_to_leave;
}

void Lifecycle::Evaluated() {
  moved_ = true;
  votes_ = {};
  wanted_to_leave_ = false;
}

void Lifecycle::Saved(const Position& at, TimePoint now) {
  saved_ = at;
  saved_at_ = now;
}

bool Lifecycle::EvaluationIsDue(const Position& at) const {
  if (at.steps == 0 || at.evaluated) return false;
  return at.steps % rules_.steps_per_epoch == 0 || at.steps >= end_;
}

std::string Lifecycle::Describe() const {
  std::string text =
      absl::StrCat("world ", world_size_, elastic_ ? "" : ", for life", saves_ ? ", saves" : "",
                   finished_ ? ", finished" : "", moved_ ? ", moved" : "");
  if (votes_.leaving > 0)
    absl::StrAppend(&text, ", ", votes_.leaving, " leaving", wanted_to_leave_ ? " with this one" : "");
  if (votes_.regrouping > 0) absl::StrAppend(&text, ", ", votes_.regrouping, " know of a new generation");
  if (saved_)
    absl::StrAppend(&text, ", saved ", checkpoints::ToText(*saved_), saved_->evaluated ? " evaluated" : "");
  return text;
}

std::string Describe(const Decision& decision, const Lifecycle& lifecycle, const Position& at) {
  const int64_t last = at.steps - 1;
  switch (decision.cause) {
    case Cause::kNext:
      return absl::StrCat(kActions[static_cast<size_t>(decision.action)], " at step ", at.steps);
    case Cause::kEveryEpochs:
      return absl::StrCat("save after step ", last, ": due by checkpoint_epochs");
    case Cause::kEverySteps:
      return absl::StrCat("save after step ", last, ": due by checkpoint_steps");
    case Cause::kEveryInterval:
      return absl::StrCat("save after step ", last, ": due by checkpoint_seconds");
    case Cause::kBeforeEnd:
      return absl::StrCat("save after step ", last, ": the last one here");
    case Cause::kVotedToLeave:
      return absl::StrCat("left after step ", last, ", the other workers continue without this one");
    case Cause::kAllLeave:
      return absl::StrCat("all workers leave after step ", last);
    case Cause::kOthersLeave:
      return absl::StrCat(lifecycle.votes().leaving, " of ", lifecycle.world_size(),
                          " workers left after step ", last);
    case Cause::kWorkersChange:
      return absl::StrCat("workers changed after step ", last);
    case Cause::kGenerationOver:
      return "this generation is over";
  }
  return "";
}

bool GivesEvaluationUp(std::optional<TimePoint> told, Duration grace, TimePoint now) {
  return told && grace > Duration::zero() && now - *told >= grace / 4;
}

Origin OriginOf(const checkpoints::StatePlan& plan, bool resume, bool looked) {
  if (plan.source >= 0) return looked || plan.readers.empty() ? Origin::kMembers : Origin::kCheckpoint;
  return resume && !looked ? Origin::kCheckpoint : Origin::kFresh;
}

bool ReadsCheckpoint(const checkpoints::StatePlan& plan, int rank, bool first_on_node, bool wanted) {
  if (!first_on_node) return false;
  return plan.source < 0 ? wanted : std::count(plan.readers.begin(), plan.readers.end(), rank) != 0;
}

checkpoints::StatePlan FreshPlan(checkpoints::StatePlan plan, int world_size) {
  plan.source = 0;
  plan.writer = 0;
  plan.receive.clear();
  for (int rank = 1; rank < world_size; ++rank) plan.receive.push_back(rank);
  return plan;
}

bool Receives(const checkpoints::StatePlan& plan, int rank) {
  return std::count(plan.receive.begin(), plan.receive.end(), rank) != 0;
}

FileRole RoleOf(int rank, int writer, bool first_on_node, bool sees_mark) {
  if (rank == writer) return FileRole::kWriter;
  return first_on_node && !sees_mark ? FileRole::kCopies : FileRole::kNone;
}

LastSave LastSaveOf(bool holds, const Position& at, uint64_t generation, const std::vector<Position>& saved,
                    const checkpoints::LedgerEnd& ledger) {
  const auto as_far = [&at](const Position& other) {
    return other >= Position{at.generation, at.steps, false};
  };
  if (!holds || generation < ledger.generation || std::any_of(saved.begin(), saved.end(), as_far))
    return LastSave::kNone;
  return generation == ledger.generation && ledger.next_step > at.steps ? LastSave::kBeside
                                                                        : LastSave::kWriter;
}

}  // namespace mtrun::trainers
