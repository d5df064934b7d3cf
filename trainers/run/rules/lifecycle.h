// Every decision of a training run: what a member does next, which member writes the run's files, where a run
// continues from. A value and pure functions: no clock, no files, no network. TrainLoop performs them.
//
// Joint actions (a step, an evaluation, the end) depend only on what all members of a generation share: the
// position, the world and the votes that came with the sums of the last step. Each member saves on its own,
// because no other member waits for a save.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/position.h"

namespace mtrun::trainers {

/// Constant over a run.
struct RunRules {
  int64_t steps = 0;                          // in the whole run
  int64_t steps_per_epoch = 1;                // an evaluation follows each epoch and the last step
  int64_t save_steps = 0;                     // steps between checkpoints; 0: not by steps
  int64_t save_epochs = 0;                    // epochs between checkpoints; 0: not by epochs
  Duration save_interval = Duration::zero();  // time between checkpoints; zero: not by time
  auto operator<=>(const RunRules&) const = default;
};

/// The members' votes in the step that ended at the position; all members know the same.
struct VoteCount {
  int leaving = 0;     // members that want to leave
  int regrouping = 0;  // members that know of a coming generation
  auto operator<=>(const VoteCount&) const = default;
};

enum class Action {
  kStep,      // together
  kEvaluate,  // together
  kSave,      // submit a checkpoint to the thread that writes it
  kRegroup,   // wait for the next generation
  kLeave,     // this worker's part ends; the run may continue without it
  kFinish,    // the run is complete
};

struct Decision {
  enum class Cause {
    kNext,            // a step, an evaluation or the end, as the position requires
    kEveryEpochs,     // save: due by epochs
    kEverySteps,      // save: due by steps
    kEveryInterval,   // save: due by time
    kBeforeEnd,       // save: the run ends or stops here
    kVotedToLeave,    // leave: this member voted to, others continue
    kAllLeave,        // leave: the run stops here
    kOthersLeave,     // regroup: other members leave
    kWorkersChange,   // regroup: workers join
    kGenerationOver,  // regroup: the generation has ended
  };
  Action action = Action::kStep;
  Cause cause = Cause::kNext;
  auto operator<=>(const Decision&) const = default;
};

/// Decides a member's next action from its position and from the other facts that the member knows.
class Lifecycle {
 public:
  Lifecycle(const RunRules& rules, TimePoint now) : rules_(rules), saved_at_(now), end_(rules.steps) {}

  /// Begins a generation. `elastic`: another generation can follow, so some members can leave while others
  /// continue. `saves`: this member writes checkpoints, for all members or for its node. `finished`: the
  /// results are on the disk.
  void Enter(int world_size, bool elastic, bool saves, bool finished);

  /// Returns the next action at `at`. `generation_over`: this member knows that the generation has ended.
  Decision Next(const checkpoints::Position& at, bool generation_over, TimePoint now) const;

  /// Records that a step was applied. `wanted_to_leave`: this member's own vote in it.
  void Stepped(VoteCount votes, bool wanted_to_leave);
  void Evaluated();
  /// Ends the run at `at`, before its full length, because an evaluation has decided so on all members alike.
  /// This applies to the current generation; the next one may continue from an earlier position.
  void EndAt(const checkpoints::Position& at) { end_ = at.steps; }
  /// Records that the checkpoint of `at` was submitted.
  void Saved(const checkpoints::Position& at, TimePoint now);

  bool EvaluationIsDue(const checkpoints::Position& at) const;
  int world_size() const { return world_size_; }
  const VoteCount& votes() const { return votes_; }
  auto operator<=>(const Lifecycle&) const = default;
  std::string Describe() const;

 private:
  std::optional<Decision> AfterVotes(const checkpoints::Position& at) const;
  std::optional<Decision> SaveIsDue(const checkpoints::Position& at, TimePoint now) const;
  bool NeedsSave(const checkpoints::Position& at) const { return saves_ && saved_ != at; }

  RunRules rules_;
  TimePoint saved_at_;  // when the last checkpoint was submitted, or this process began

  // State of the running generation.
  int64_t end_;  // in steps
  int world_size_ = 1;
  bool elastic_ = true;
  bool saves_ = false;
  bool finished_ = false;
  bool moved_ = false;  // a step or an evaluation was done
  VoteCount votes_;
  bool wanted_to_leave_ = false;
  std::optional<checkpoints::Position> saved_;  // position of the last checkpoint that this member submitted
};

/// Describes a decision: "save after step 200: the steps say so". Steps are numbered from 0.
std::string Describe(const Decision& decision, const Lifecycle& lifecycle, const checkpoints::Position& at);

// ---- within an evaluation

/// Returns whether a member that was told to leave at `told` (unset: it was not) gives up the current
/// evaluation, which the others then repeat. `grace`: from `told` to SIGKILL; if it is zero (unknown),
/// nothing is given up. A quarter of it is spent here, which lets an almost finished evaluation end. The rest
/// is for the current batch, a second to see whether another generation forms, and the checkpoint.
bool GivesEvaluationUp(std::optional<TimePoint> told, Duration grace, TimePoint now);

// ---- the beginning of a generation

/// Source of the run's state.
enum class Origin {
  kMembers,     // the member that is furthest
  kCheckpoint,  // no member has it, or a checkpoint is further: the checkpoint is read, then the claims are
                // compared again
  kFresh,       // no member has it, and no checkpoint exists or is wanted: the run begins
};
/// Returns the source. `resume`: checkpoints count if no member holds the run. `looked`: they have been read.
Origin OriginOf(const checkpoints::StatePlan& plan, bool resume, bool looked);
/// Returns whether the worker at `rank` reads its node's newest checkpoint: one process does on each node
/// whose folder has the required one. `wanted`: its node's checkpoints count if no member holds the run.
bool ReadsCheckpoint(const checkpoints::StatePlan& plan, int rank, bool first_on_node, bool wanted);
/// Returns the plan of a run that begins: all other members receive rank 0's weights.
checkpoints::StatePlan FreshPlan(checkpoints::StatePlan plan, int world_size);
/// Returns whether `rank` takes over another member's state.
bool Receives(const checkpoints::StatePlan& plan, int rank);

/// A member's role for the run's files.
enum class FileRole {
  kNone,
  kWriter,  // writes all of them; exactly one member
  kCopies,  // saves only checkpoints, on a node that does not share the writer's folder
};
/// Returns the role. `sees_mark`: this member's folder has the mark that this generation's writer left.
FileRole RoleOf(int rank, int writer, bool first_on_node, bool sees_mark);

// ---- state held outside a generation

/// The last save of a worker that has been told to leave while it waits and holds a state.
enum class LastSave {
  kNone,    // others have continued or saved as much: this state is not needed
  kWriter,  // a checkpoint, and the missing records of the run
  /// Only a checkpoint. A member of its generation has recorded a step that was aborted here. If that member
  /// dies before it saves that step, the run continues from this checkpoint and repeats the step.
  kBeside,
};
/// Returns which save to make. `holds`: the worker has a state at `at` and was last in `generation`. `saved`:
/// the complete checkpoints in its folder. `ledger`: the end of the records there.
LastSave LastSaveOf(bool holds, const checkpoints::Position& at, uint64_t generation,
                    const std::vector<checkpoints::Position>& saved, const checkpoints::LedgerEnd& ledger);

}  // namespace mtrun::trainers
