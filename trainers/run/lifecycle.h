// Every decision of a training run: what a member does next, who writes the run's files, where a run
// continues from. A value and pure functions: no clock, no files, no network. TrainLoop performs them.
//
// What is done together (a step, an evaluation, the end) depends on what all members of a generation know
// alike alone: the position, the world and the votes that came with the sums of the last step. Saving is a
// member's own business, for nobody waits for it.
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
  int64_t steps = 0;                          // of the whole run
  int64_t steps_per_epoch = 1;                // an evaluation follows each epoch, and the last step
  int64_t save_steps = 0;                     // a checkpoint every so many steps, 0: no
  int64_t save_epochs = 0;                    // every so many epochs, 0: no
  Duration save_interval = Duration::zero();  // so long after the last one, zero: no
  auto operator<=>(const RunRules&) const = default;
};

/// What the members said in the step that ended at the position; all know the same.
struct VoteCount {
  int leaving = 0;     // members that want to go
  int regrouping = 0;  // members that know of a generation to come
  auto operator<=>(const VoteCount&) const = default;
};

enum class Action {
  kStep,      // together
  kEvaluate,  // together
  kSave,      // hand a checkpoint to the thread that writes it
  kRegroup,   // wait for the next generation
  kLeave,     // this worker's part ends, the run may continue without it
  kFinish,    // the run is complete
};

struct Decision {
  enum class Cause {
    kNext,            // a step, an evaluation or the end, as the position has it
    kEveryEpochs,     // saves: by the rules ...
    kEverySteps,      // ...
    kEveryInterval,   // ...
    kBeforeEnd,       // ... and because the run ends or stops here
    kVotedToLeave,    // this member did, others continue
    kAllLeave,        // the run stops here
    kOthersLeave,     // regroups: some leave ...
    kWorkersChange,   // ... others come ...
    kGenerationOver,  // ... or the generation ended meanwhile
  };
  Action action = Action::kStep;
  Cause cause = Cause::kNext;
  auto operator<=>(const Decision&) const = default;
};

/// What one member knows beside its position.
class Lifecycle {
 public:
  Lifecycle(const RunRules& rules, TimePoint now) : rules_(rules), saved_at_(now), end_(rules.steps) {}

  /// A generation begins. `elastic`: another one can follow it, so that some may leave while others continue.
  /// `saves`: this member writes checkpoints, for all or for its node. `finished`: the results are on the
  /// disk.
  void Enter(int world_size, bool elastic, bool saves, bool finished);

  /// The next thing to do at `at`. `generation_over`: this member has heard that the generation ended.
  Decision Next(const checkpoints::Position& at, bool generation_over, TimePoint now) const;

  /// A step was applied. `wanted_to_leave`: this member's own vote in it.
  void Stepped(VoteCount votes, bool wanted_to_leave);
  void Evaluated();
  /// The run ends at `at`, before its length is reached: an evaluation has said so, to all members alike. For
  /// this generation; the next one may continue from before it.
  void EndAt(const checkpoints::Position& at) { end_ = at.steps; }
  /// The checkpoint of `at` was handed over.
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
  TimePoint saved_at_;  // when the last checkpoint was handed over, or this process began

  // Of the running generation.
  int64_t end_;  // steps
  int world_size_ = 1;
  bool elastic_ = true;
  bool saves_ = false;
  bool finished_ = false;
  bool moved_ = false;  // a step or an evaluation was done
  VoteCount votes_;
  bool wanted_to_leave_ = false;
  std::optional<checkpoints::Position> saved_;  // the last that this member handed over
};

/// "save after step 200: every 100 steps". Steps are named by their number, from 0.
std::string Describe(const Decision& decision, const Lifecycle& lifecycle, const checkpoints::Position& at);

// ---- within an evaluation

/// Whether a member that was told to go at `told` (nothing: it was not) gives up the evaluation that it takes
/// part in: whoever continues the run does it again. `grace`: from then to SIGKILL; zero: unknown, and
/// nothing is given up. A quarter of it is spent here: what is nearly done ends in order and costs the others
/// nothing, and three quarters are left for the batch under way, a second to see whether another generation
/// forms, and the checkpoint.
bool GivesEvaluationUp(std::optional<TimePoint> told, Duration grace, TimePoint now);

// ---- the beginning of a generation

/// Where the state of the run comes from.
enum class Origin {
  kMembers,     // from the member that is furthest
  kCheckpoint,  // no member holds it, or a checkpoint lies further: that is read, then the claims are
                // compared again
  kFresh,       // no member holds it, and there is no checkpoint or none is wanted: the run begins
};
/// `resume`: checkpoints count if no member holds the run; `looked`: they were read already.
Origin OriginOf(const checkpoints::StatePlan& plan, bool resume, bool looked);
/// Whether the worker at `rank` reads its node's newest checkpoint: one process of each node whose folder has
/// what is looked for. `wanted`: its node's checkpoints count if no member holds the run.
bool ReadsCheckpoint(const checkpoints::StatePlan& plan, int rank, bool first_on_node, bool wanted);
/// The plan of a run that begins: rank 0's weights count, everybody else receives them.
checkpoints::StatePlan FreshPlan(checkpoints::StatePlan plan, int world_size);
/// Whether `rank` takes another's state over.
bool Receives(const checkpoints::StatePlan& plan, int rank);

/// What a member does with the run's files.
enum class FileRole {
  kNone,
  kWriter,  // all of them; exactly one member
  kCopies,  // checkpoints alone, on a node that does not share the writer's folder
};
/// `sees_mark`: this member's folder shows the mark that the writer of this generation left in its own.
FileRole RoleOf(int rank, int writer, bool first_on_node, bool sees_mark);

// ---- held outside of a generation

/// What a worker that is told to go while it waits does with the state that it holds.
enum class LastSave {
  kNone,    // others have gone on, or have saved as much: nobody would continue from it
  kWriter,  // a checkpoint, and whatever the records of the run lack
  /// A checkpoint alone. A member of its generation has recorded a step that was aborted here, and may be
  /// saving it, or have died before it could: then the run goes on from this one, and does that step again.
  kBeside,
};
/// `holds`: it has a state, as of `at`, and was in `generation` last; `saved`: the complete checkpoints in
/// its folder; `ledger`: how far the records are there.
LastSave LastSaveOf(bool holds, const checkpoints::Position& at, uint64_t generation,
                    const std::vector<checkpoints::Position>& saved, const checkpoints::LedgerEnd& ledger);

}  // namespace mtrun::trainers
