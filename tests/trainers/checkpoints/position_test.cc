#include "trainers/checkpoints/position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mtrun::checkpoints {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Claim At(uint64_t generation, int64_t steps, uint64_t digest = 1, uint64_t run = 9) {
  return {.run = run, .position = {generation, steps, false}, .digest = digest};
}
const Claim kNew = {};

TEST(PositionTest, StepsTakePrecedenceOverTheGeneration) {
  EXPECT_LT((Position{2, 50, false}), (Position{1, 100, false}));
  EXPECT_LT((Position{1, 50, false}), (Position{2, 50, false}));
  EXPECT_LT((Position{1, 50, true}), (Position{2, 50, false})) << "the later generation evaluates again";
  EXPECT_LT((Position{2, 50, false}), (Position{2, 50, true}));
  EXPECT_EQ(ToText({3, 1200, true}), "step 1200 (generation 3)");
}

TEST(DecideSourceTest, NoMemberHasAState) {
  const std::vector<Claim> claims = {kNew, kNew};
  const StatePlan plan = DecideSource(claims, 1);
  EXPECT_EQ(plan.source, -1);
  EXPECT_THAT(plan.receive, IsEmpty());
  EXPECT_EQ(plan.generation, 1u);
}

TEST(DecideSourceTest, HighestPositionIsTheSourceAndOthersReceive) {
  const std::vector<Claim> claims = {At(1, 20), kNew, At(1, 21, 5), At(1, 21, 5)};
  const StatePlan plan = DecideSource(claims, 2);
  EXPECT_EQ(plan.source, 2);
  EXPECT_EQ(plan.writer, 2) << "a newcomer does not know what its predecessor could not write";
  EXPECT_THAT(plan.receive, ElementsAre(0, 1));
  EXPECT_THAT(plan.diverged, IsEmpty());
  EXPECT_EQ(plan.generation, 2u);
}

/// Generations that made no checkpoint have left lines in the ledger of some node. New generations get a
/// higher number, and a member that has read other lines does not hold another state.
TEST(DecideSourceTest, GenerationIsHigherThanAnyInALedger) {
  std::vector<Claim> claims = {At(2, 10), At(2, 10), kNew};
  claims[1].known = 5;
  StatePlan plan = DecideSource(claims, 1);
  EXPECT_EQ(plan.generation, 6u);
  EXPECT_THAT(plan.receive, ElementsAre(2));
  EXPECT_THAT(plan.diverged, IsEmpty());
  claims[2].known = 8;
  plan = DecideSource(claims, 1);
  EXPECT_EQ(plan.generation, 9u);
  EXPECT_EQ(plan.source, 0);
  const std::vector<Claim> nobody(2, Claim{.known = 5});
  EXPECT_EQ(DecideSource(nobody, 1).generation, 1u) << "a run that begins has nothing to do with it";
}

Claim WithSaved(Claim claim, Position saved, uint64_t run = 9) {
  claim.saved = {run, saved};
  return claim;
}

/// A node was frozen at step 66; the others continued to step 350, saved it and died.
TEST(DecideSourceTest, CheckpointAheadOfAllMembersIsReadFirst) {
  const std::vector<Claim> claims = {WithSaved(At(1, 66), {2, 350}), WithSaved(kNew, {2, 320}),
                                     WithSaved(kNew, {1, 60}), WithSaved(kNew, {3, 900}, /*run=*/8)};
  const StatePlan plan = DecideSource(claims, 3);
  EXPECT_EQ(plan.source, 0);
  EXPECT_EQ(plan.truth, (Position{1, 66, false}));
  EXPECT_THAT(plan.readers, ElementsAre(0, 1)) << "of this run, and above the source alone";
  EXPECT_THAT(DecideSource(std::vector<Claim>{WithSaved(At(1, 66), {1, 66})}, 3).readers, IsEmpty());
  EXPECT_THAT(DecideSource(std::vector<Claim>{WithSaved(At(1, 66), {1, 66, true})}, 3).readers,
              ElementsAre(0));
}

TEST(DecideSourceTest, StateThatOthersMayHaveContinuedSkipsGenerations) {
  std::vector<Claim> claims = {At(7, 66), At(7, 66)};
  claims[0].gap = 500;
  claims[1].known = 9;
  EXPECT_EQ(DecideSource(claims, 1).generation, 510u);
  claims[0].position.steps = 65;
  EXPECT_EQ(DecideSource(claims, 1).generation, 10u) << "the source has met those who continued";
}

/// Covers all worlds of three members that are at, or have saved, one of four positions in three generations.
TEST(DecideSourceTest, NothingReadableIsAheadOfTheSourceAfterTheReadersRead) {
  std::vector<Claim> kinds = {kNew};
  for (const uint64_t live : {0, 1, 2, 3})
    for (const int64_t steps : {1, 2, 3, 4})
      for (const uint64_t saved : {0, 1, 2, 3}) {
        Claim claim = live == 0 ? kNew : At(live, steps);
        claim.known = std::max(live, saved);
        if (saved != 0) claim.saved = {9, {saved, 5 - steps, false}};
        kinds.push_back(claim);
      }
  size_t worlds = 0;
  for (const Claim& a : kinds)
    for (const Claim& b : kinds)
      for (const Claim& c : kinds) {
        std::vector<Claim> claims = {a, b, c};
        StatePlan plan = DecideSource(claims, 1);
        ++worlds;
        for (size_t rank = 0; rank < claims.size(); ++rank) {
          Claim& claim = claims[rank];
          const bool reads = plan.source < 0
                                 ? claim.saved.run != 0
                                 : std::count(plan.readers.begin(), plan.readers.end(), rank) != 0;
          if (reads) claim.run = claim.saved.run, claim.position = claim.saved.position;
        }
        plan = DecideSource(claims, 1);
        for (const Claim& claim : claims) {
          ASSERT_TRUE(claim.run == 0 || claim.position <= plan.truth);
          ASSERT_TRUE(claim.saved.run == 0 || claim.saved.position <= plan.truth);
          ASSERT_TRUE(plan.source < 0 || plan.generation > claim.known);
        }
      }
  EXPECT_EQ(worlds, kinds.size() * kinds.size() * kinds.size());
}

/// The others restarted from an older checkpoint, or one of them aborted the step that this member applied.
TEST(DecideSourceTest, FrozenMemberThatIsAheadIsTheSource) {
  const std::vector<Claim> claims = {At(1, 25), At(3, 24)};
  const StatePlan plan = DecideSource(claims, 4);
  EXPECT_EQ(plan.source, 0);
  EXPECT_THAT(plan.receive, ElementsAre(1));
  EXPECT_EQ(DecideSource(std::vector<Claim>{At(1, 25), At(3, 25)}, 4).source, 1) << "the later generation's";
}

TEST(DecideSourceTest, EqualPositionsWithDifferentBitsAreRivals) {
  const std::vector<Claim> claims = {kNew, At(2, 7, 1), At(2, 6, 4), At(2, 7, 2), At(2, 7, 3)};
  const StatePlan plan = DecideSource(claims, 3);
  EXPECT_EQ(plan.source, 1);
  EXPECT_EQ(plan.rival, 3);
  EXPECT_EQ(DescribeRivals(claims, plan),
            "rank 1 and rank 3 are both at step 7 (generation 2) with different states (digests "
            "0000000000000001 and 0000000000000002)");
}

TEST(DecideSourceTest, EqualPositionsOfDifferentRunsAreRivals) {
  const std::vector<Claim> claims = {At(2, 7, 1, 9), At(2, 7, 1, 8)};
  const StatePlan plan = DecideSource(claims, 3);
  EXPECT_EQ(plan.rival, 1);
  EXPECT_THAT(DescribeRivals(claims, plan), HasSubstr("different runs"));
}

TEST(DecideSourceTest, MemberThatIsBehindIsNeverARival) {
  const std::vector<Claim> claims = {At(2, 6, 4), At(2, 7, 1), At(1, 5, 1, 8), At(2, 7, 1)};
  const StatePlan plan = DecideSource(claims, 3);
  EXPECT_EQ(plan.source, 1);
  EXPECT_EQ(plan.rival, -1);
  EXPECT_THAT(plan.receive, ElementsAre(0, 2));
  EXPECT_THAT(plan.diverged, ElementsAre(2));
}

/// Three nodes were partitioned away before the first checkpoint, and two newcomers started the run over.
TEST(DecideSourceTest, RunWithMoreStepsWins) {
  const std::vector<Claim> claims = {At(23, 5, 1, 8), At(22, 500, 1, 9), At(23, 5, 1, 8), At(22, 499, 1, 9)};
  StatePlan plan = DecideSource(claims, 24);
  EXPECT_EQ(plan.source, 1);
  EXPECT_EQ(plan.writer, 1);
  EXPECT_EQ(plan.rival, -1);
  EXPECT_THAT(plan.receive, ElementsAre(0, 2, 3));
  EXPECT_THAT(plan.diverged, ElementsAre(0, 2));
  // If the step counts are equal, the later generation is the source; if the generations are equal too, it is
  // the lowest rank, whatever the runs' numbers.
  plan = DecideSource(std::vector<Claim>{At(3, 7, 1, 5), At(4, 7, 1, 8)}, 5);
  EXPECT_EQ(plan.source, 1);
  EXPECT_EQ(plan.rival, -1);
  plan = DecideSource(std::vector<Claim>{At(4, 7, 1, 8), At(4, 7, 1, 5)}, 5);
  EXPECT_EQ(plan.source, 0);
  EXPECT_EQ(plan.rival, 1);
}

TEST(DecideSourceTest, EmptyMemberIsNeverTheSourceAndPositionsOnlyGrow) {
  // Covers every combination of four kinds of claims on three ranks, with a service that counts from 1 again.
  const std::vector<Claim> kinds = {kNew, At(5, 10), At(5, 11), At(6, 3)};
  for (const Claim& a : kinds)
    for (const Claim& b : kinds)
      for (const Claim& c : kinds) {
        const std::vector<Claim> claims = {a, b, c};
        const StatePlan plan = DecideSource(claims, 1);
        Position highest;
        for (const Claim& claim : claims) {
          if (claim.run == 0) continue;
          highest = std::max(highest, claim.position);
          EXPECT_GT(plan.generation, claim.position.generation);
        }
        if (plan.source < 0) {
          EXPECT_EQ(highest, Position{});
          continue;
        }
        EXPECT_NE(claims[plan.source].run, 0u);
        EXPECT_EQ(claims[plan.source].position, highest);
        // A member that does not receive already has the source's state.
        for (int rank = 0; rank < 3; ++rank) {
          const bool receives = std::count(plan.receive.begin(), plan.receive.end(), rank) != 0;
          EXPECT_EQ(!receives, claims[rank] == claims[plan.source]);
          if (!receives) {
            EXPECT_LE(plan.writer, rank);
          }
        }
      }
}

}  // namespace
}  // namespace mtrun::checkpoints
