#include "trainers/run/rules/lifecycle.h"

#include <chrono>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using checkpoints::Position;
using checkpoints::StatePlan;
using Cause = Decision::Cause;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr RunRules kRules{.steps = 10, .steps_per_epoch = 4, .save_steps = 3, .save_epochs = 1};

Position After(int64_t steps, bool evaluated = false) { return {1, steps, evaluated}; }

/// Returns a member of `world` that has just reached its position.
Lifecycle Member(bool saves, int world = 2, const RunRules& rules = kRules, VoteCount votes = {},
                 bool wanted_to_leave = false, bool elastic = true) {
  Lifecycle life(rules, TimePoint());
  life.Enter(world, elastic, saves, /*finished=*/false);
  life.Stepped(votes, wanted_to_leave);
  return life;
}
Action Next(const Lifecycle& life, const Position& at, bool over = false) {
  return life.Next(at, over, TimePoint()).action;
}
Cause Why(const Lifecycle& life, const Position& at) { return life.Next(at, false, TimePoint()).cause; }

TEST(Lifecycle, StepsUntilTheEpochEndsThenEvaluates) {
  const Lifecycle life = Member(/*saves=*/false);
  for (const int64_t steps : {0, 1, 3, 5, 9}) EXPECT_EQ(Next(life, After(steps)), Action::kStep) << steps;
  for (const int64_t steps : {4, 8, 10}) {
    EXPECT_EQ(Next(life, After(steps)), Action::kEvaluate) << steps;
    EXPECT_EQ(Next(life, After(steps, true)), steps == 10 ? Action::kFinish : Action::kStep) << steps;
  }
}

TEST(Lifecycle, EndsEarlyIfAnEvaluationSaysSo) {
  Lifecycle life = Member(/*saves=*/true);
  life.Evaluated();
  EXPECT_EQ(Next(life, After(8, true)), Action::kSave) << "every epoch";
  life.Saved(After(8, true), TimePoint());
  EXPECT_EQ(Next(life, After(8, true)), Action::kStep);
  life.EndAt(After(8, true));
  EXPECT_EQ(Next(life, After(8, true)), Action::kFinish);
  Lifecycle unsaved = Member(/*saves=*/true, 2, {.steps = 10, .steps_per_epoch = 4});
  unsaved.EndAt(After(8, true));
  EXPECT_EQ(Next(unsaved, After(8, true)), Action::kSave) << "before the end";
  EXPECT_EQ(Why(unsaved, After(8, true)), Cause::kBeforeEnd);
  // The next generation may continue from an earlier step, and its evaluations can differ.
  unsaved.Enter(3, true, /*saves=*/false, false);
  EXPECT_EQ(Next(unsaved, After(9)), Action::kStep);
  unsaved.EndAt(After(8, true));
  EXPECT_EQ(Next(unsaved, After(8, true)), Action::kFinish);
}

TEST(Lifecycle, SavesOnceByTheRules) {
  Lifecycle life = Member(/*saves=*/true);
  EXPECT_EQ(Next(life, After(2)), Action::kStep);
  EXPECT_EQ(Why(life, After(3)), Cause::kEverySteps);
  EXPECT_EQ(Next(life, After(4)), Action::kEvaluate) << "the evaluation comes first";
  EXPECT_EQ(Why(life, After(4, true)), Cause::kEveryEpochs);
  life.Saved(After(3), TimePoint());
  EXPECT_EQ(Next(life, After(3)), Action::kStep);
  EXPECT_EQ(Next(Member(/*saves=*/false), After(3)), Action::kStep) << "another member saves";
  const Lifecycle by_steps = Member(/*saves=*/true, 2, {.steps = 10, .steps_per_epoch = 4, .save_steps = 4});
  EXPECT_EQ(Next(by_steps, After(4)), Action::kEvaluate);
  EXPECT_EQ(Why(by_steps, After(4, true)), Cause::kEverySteps) << "where an epoch ends, too";
}

TEST(Lifecycle, EpochCutShortByMaxStepsIsNotAWholeOne) {
  EXPECT_EQ(Why(Member(true), After(10, true)), Cause::kBeforeEnd);
  RunRules rules = kRules;
  rules.save_epochs = 2;
  EXPECT_EQ(Next(Member(true, 2, rules), After(4, true)), Action::kStep);
  EXPECT_EQ(Next(Member(true, 2, rules), After(8, true)), Action::kSave);
}

TEST(Lifecycle, SavesByTheClock) {
  const RunRules rules{.steps = 10, .steps_per_epoch = 4, .save_interval = seconds(60)};
  Lifecycle life = Member(/*saves=*/true, 2, rules);
  const TimePoint begin;
  EXPECT_EQ(life.Next(After(1), false, begin + seconds(59)).action, Action::kStep);
  EXPECT_EQ(life.Next(After(1), false, begin + seconds(60)),
            (Decision{Action::kSave, Cause::kEveryInterval}));
  EXPECT_EQ(life.Next(After(4), false, begin + seconds(60)).action, Action::kEvaluate);
  life.Saved(After(1), begin + seconds(60));
  EXPECT_EQ(life.Next(After(2), false, begin + seconds(119)).action, Action::kStep);
  life.Enter(3, true, true, false);
  life.Stepped({}, false);
  EXPECT_EQ(life.Next(After(2), false, begin + seconds(120)).action, Action::kSave) << "over generations too";
}

TEST(Lifecycle, StateFoundByANewGenerationIsNotSavedAgain) {
  Lifecycle life(kRules, TimePoint());
  life.Enter(2, true, /*saves=*/true, /*finished=*/false);
  EXPECT_EQ(Next(life, After(3)), Action::kStep);
  EXPECT_EQ(Why(life, After(10, true)), Cause::kBeforeEnd) << "but for the end, which a dead writer may owe";
  life.Enter(2, true, /*saves=*/true, /*finished=*/true);
  EXPECT_EQ(Next(life, After(10, true)), Action::kFinish);
}

TEST(Lifecycle, SomeLeaveAndTheOthersRegroup) {
  const VoteCount one{.leaving = 1, .regrouping = 0};
  const Lifecycle stays = Member(true, 2, kRules, one, false), goes = Member(true, 2, kRules, one, true);
  EXPECT_EQ(stays.Next(After(3), false, TimePoint()), (Decision{Action::kRegroup, Cause::kOthersLeave}));
  EXPECT_EQ(goes.Next(After(3), false, TimePoint()), (Decision{Action::kLeave, Cause::kVotedToLeave}));
  EXPECT_EQ(Describe({Action::kRegroup, Cause::kOthersLeave}, stays, After(1436)),
            "1 of 2 workers left after step 1435");
  EXPECT_EQ(Describe({Action::kLeave, Cause::kVotedToLeave}, goes, After(3)),
            "left after step 2, the other workers continue without this one");
}

TEST(Lifecycle, RunIsSavedBeforeAllLeave) {
  Lifecycle life = Member(true, 2, kRules, {.leaving = 2}, true);
  EXPECT_EQ(Why(life, After(5)), Cause::kBeforeEnd);
  life.Saved(After(5), TimePoint());
  EXPECT_EQ(life.Next(After(5), false, TimePoint()), (Decision{Action::kLeave, Cause::kAllLeave}));
  EXPECT_EQ(Next(Member(false, 2, kRules, {.leaving = 2}, true), After(5)), Action::kLeave);
}

TEST(Lifecycle, AllStopTogetherIfOneIsDrainedAndNoGenerationFollows) {
  for (const bool wanted : {true, false}) {
    SCOPED_TRACE(wanted);
    Lifecycle life = Member(true, 3, kRules, {.leaving = 1}, wanted, /*elastic=*/false);
    EXPECT_EQ(life.Next(After(5), false, TimePoint()), (Decision{Action::kSave, Cause::kBeforeEnd}));
    life.Saved(After(5), TimePoint());
    EXPECT_EQ(life.Next(After(5), false, TimePoint()), (Decision{Action::kLeave, Cause::kAllLeave}));
    const Lifecycle saves_nothing = Member(false, 3, kRules, {.leaving = 1}, wanted, /*elastic=*/false);
    EXPECT_EQ(saves_nothing.Next(After(5), false, TimePoint()), (Decision{Action::kLeave, Cause::kAllLeave}));
    // The evaluation of an epoch's last step is left to the worker that continues the run.
    EXPECT_EQ(Next(saves_nothing, After(4)), Action::kLeave);
  }
  EXPECT_EQ(Next(Member(true, 3, kRules, {}, false, /*elastic=*/false), After(5)), Action::kStep);
  EXPECT_EQ(Describe({Action::kLeave, Cause::kAllLeave}, Lifecycle(kRules, TimePoint()), After(6)),
            "all workers leave after step 5");
  EXPECT_EQ(Member(false, 2, kRules, {}, false, /*elastic=*/false).Describe(), "world 2, for life, moved");
}

TEST(Lifecycle, NewcomersAreAdmittedAfterTheStepAndItsSave) {
  Lifecycle life = Member(true, 2, kRules, {.regrouping = 1});
  EXPECT_EQ(Next(life, After(3)), Action::kSave);
  life.Saved(After(3), TimePoint());
  EXPECT_EQ(Why(life, After(3)), Cause::kWorkersChange);
  EXPECT_EQ(Describe({Action::kRegroup, Cause::kWorkersChange}, life, After(431)),
            "workers changed after step 430");
  life.Enter(3, true, true, false);
  EXPECT_EQ(Next(life, After(3)), Action::kStep) << "the votes were the last generation's";
}

TEST(Lifecycle, EndedGenerationIsLeftUnlessTheRunIsDone) {
  const Lifecycle life = Member(false);
  EXPECT_EQ(Next(life, After(1), /*over=*/true), Action::kRegroup);
  EXPECT_EQ(Next(life, After(4), /*over=*/true), Action::kRegroup);
  EXPECT_EQ(Next(life, After(10, true), /*over=*/true), Action::kFinish);
}

TEST(Lifecycle, IsAValueThatDescribesItself) {
  EXPECT_EQ(Member(true), Member(true));
  EXPECT_NE(Member(true), Member(false));
  EXPECT_NE(Member(true), Member(true, 2, kRules, {.regrouping = 1}));
  Lifecycle life = Member(true, 3, kRules, {.leaving = 1, .regrouping = 2}, true);
  life.Saved(After(4, true), TimePoint());
  EXPECT_EQ(life.Describe(),
            "world 3, saves, moved, 1 leaving with this one, 2 know of a new generation, "
            "saved step 4 (generation 1) evaluated");
}

TEST(Lifecycle, EvaluationIsAbandonedAQuarterOfTheGraceAfterTheDrain) {
  const TimePoint told = TimePoint() + seconds(100);
  const Duration grace = seconds(30), quarter = milliseconds(7500);
  EXPECT_FALSE(GivesEvaluationUp(told, grace, told));
  EXPECT_FALSE(GivesEvaluationUp(told, grace, told + quarter - Duration(1)));
  EXPECT_TRUE(GivesEvaluationUp(told, grace, told + quarter));
  EXPECT_TRUE(GivesEvaluationUp(told, grace, told + seconds(1000)));
  EXPECT_FALSE(GivesEvaluationUp(std::nullopt, grace, told + seconds(1000))) << "nobody has told it";
  EXPECT_FALSE(GivesEvaluationUp(told, Duration::zero(), told + seconds(1000))) << "SIGKILL may never come";
}

TEST(Lifecycle, StateComesFromMembersThenACheckpointThenInitialisation) {
  StatePlan members, nobody;
  members.source = 1;
  EXPECT_EQ(OriginOf(members, true, false), Origin::kMembers);
  EXPECT_EQ(OriginOf(nobody, true, false), Origin::kCheckpoint);
  EXPECT_EQ(OriginOf(nobody, true, true), Origin::kFresh);
  EXPECT_EQ(OriginOf(nobody, false, false), Origin::kFresh);
  members.readers = {0, 2};
  EXPECT_EQ(OriginOf(members, true, false), Origin::kCheckpoint) << "one lies further";
  EXPECT_EQ(OriginOf(members, false, false), Origin::kCheckpoint) << "of this very run";
  EXPECT_EQ(OriginOf(members, true, true), Origin::kMembers);
  EXPECT_TRUE(ReadsCheckpoint(members, 2, /*first_on_node=*/true, /*wanted=*/false));
  EXPECT_FALSE(ReadsCheckpoint(members, 2, /*first_on_node=*/false, /*wanted=*/true));
  EXPECT_FALSE(ReadsCheckpoint(members, 1, /*first_on_node=*/true, /*wanted=*/true));
  EXPECT_TRUE(ReadsCheckpoint(nobody, 1, /*first_on_node=*/true, /*wanted=*/true));
  EXPECT_FALSE(ReadsCheckpoint(nobody, 1, /*first_on_node=*/true, /*wanted=*/false));
  nobody.generation = 4;
  const StatePlan fresh = FreshPlan(nobody, 3);
  EXPECT_EQ(fresh.source, 0);
  EXPECT_EQ(fresh.generation, 4u);
  EXPECT_THAT(fresh.receive, ElementsAre(1, 2));
  EXPECT_TRUE(Receives(fresh, 2));
  EXPECT_FALSE(Receives(fresh, 0));
}

TEST(Lifecycle, OneWriterAndCopiesOnNodesThatDoNotShareItsFolder) {
  EXPECT_EQ(RoleOf(2, 2, true, false), FileRole::kWriter);
  EXPECT_EQ(RoleOf(2, 2, false, true), FileRole::kWriter);
  EXPECT_EQ(RoleOf(1, 2, true, true), FileRole::kNone);
  EXPECT_EQ(RoleOf(1, 2, true, false), FileRole::kCopies);
  EXPECT_EQ(RoleOf(1, 2, false, false), FileRole::kNone);
}

TEST(Lifecycle, HeldStateIsSavedUnlessAnotherMemberSavedIt) {
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 6}}, {2, 7}), LastSave::kWriter);
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 6}}, {2, 5}), LastSave::kWriter)
      << "the writer died before it wrote";
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 7}}, {2, 7}), LastSave::kNone);
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 8}}, {2, 8}), LastSave::kNone)
      << "another's last step was not aborted";
  EXPECT_EQ(LastSaveOf(false, {}, 0, {}, {}), LastSave::kNone);
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 6}}, {3, 7}), LastSave::kNone)
      << "the others went on without it";
}

TEST(Lifecycle, MemberAStepBehindTakesNothingBack) {
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 6}}, {2, 8}), LastSave::kBeside)
      << "somebody may be saving step 8";
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 3}, {2, 6}}, {1, 8}), LastSave::kWriter)
      << "an earlier generation's, superseded";
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 9}, {2, 6}}, {2, 7}), LastSave::kNone)
      << "a checkpoint that lies further is as good";
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 2, {{1, 7}, {3, 5}}, {2, 7}), LastSave::kWriter) << "none lies as far";
  EXPECT_EQ(LastSaveOf(true, {2, 7}, 3, {{2, 7}}, {2, 7}), LastSave::kNone) << "no step has followed";
}

}  // namespace
}  // namespace mtrun::trainers
