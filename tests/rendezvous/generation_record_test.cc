#include "rendezvous/authority/generation_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::SizeIs;

JobSettings UpTo(int min_nodes, int max_nodes) {
  JobSettings settings;
  settings.min_nodes = min_nodes;
  settings.max_nodes = max_nodes;
  return settings;
}

TEST(GenerationRecord, NumbersGrowAndIdsDependOnSeedAndJob) {
  GenerationRecord record;
  record.Saw(6);
  record.Saw(4);
  const Generation next = record.Next(1, "job");
  EXPECT_EQ(next.number, 7u);
  EXPECT_EQ(record.number(), 7u);
  GenerationRecord same, other_job, other_seed;
  for (GenerationRecord* r : {&same, &other_job, &other_seed}) r->Saw(6);
  EXPECT_EQ(same.Next(1, "job"), next);
  EXPECT_NE(other_job.Next(1, "other").id, next.id);
  EXPECT_NE(other_seed.Next(2, "job").id, next.id);
}

TEST(GenerationRecord, NumbersThatNoServiceGivesOutAreNotSeen) {
  GenerationRecord record;
  record.Saw(kMaxGenerationNumber + 1);
  EXPECT_EQ(record.number(), 0u);
  record.Saw(kMaxGenerationNumber);
  EXPECT_EQ(record.number(), kMaxGenerationNumber);
}

TEST(GenerationRecord, MembersRunUntilTheGenerationStops) {
  GenerationRecord record;
  EXPECT_FALSE(record.known());
  EXPECT_EQ(record.FindLast("node1"), nullptr);
  record = Running(1, {"node1", "node2"});
  EXPECT_EQ(record.FindRunning("node2")->node_rank, 1);
  EXPECT_EQ(record.FindRunning("node3"), nullptr);
  record.Stop();
  EXPECT_EQ(record.FindRunning("node2"), nullptr);
  EXPECT_EQ(record.FindLast("node2")->node_rank, 1);
}

TEST(GenerationRecord, IsFinishedWhenEveryMemberIs) {
  GenerationRecord record = Running(1, {"node1", "node2"});
  EXPECT_TRUE(record.Finish("node1"));
  EXPECT_FALSE(record.Finish("node1"));
  EXPECT_FALSE(record.AllFinished());
  EXPECT_FALSE(record.result_safe());
  EXPECT_TRUE(record.Finish("node2", /*final=*/true));
  EXPECT_TRUE(record.AllFinished() && record.result_safe());
  record.Stop();
  EXPECT_FALSE(record.AllFinished() || record.result_safe() || record.HasFinished("node1"));
}

TEST(GenerationRecord, BreakIsExplainedByItsFailure) {
  GenerationRecord record = Running(3, {"node1"});
  record.Break();
  EXPECT_FALSE(record.running());
  EXPECT_TRUE(record.Broke(record.id()));
  EXPECT_FALSE(record.Broke(Generation{2, 22}));
  record.ExplainBreak();
  EXPECT_FALSE(record.Broke(record.id()));
}

TEST(GenerationRecord, AdoptsOnlyNewerValidGenerationsWithinBounds) {
  const GenerationRecord record = Running(3, {"node1", "node2"});
  const Assignment held = MakeGeneration(4, {"node1", "node2"});
  EXPECT_TRUE(record.CanAdopt(held, "node1", UpTo(1, 2)));
  EXPECT_FALSE(record.CanAdopt(held, "node3", UpTo(1, 2))) << "its reporter is not in it";
  EXPECT_FALSE(record.CanAdopt(held, "node1", UpTo(3, 4))) << "too few nodes";
  EXPECT_FALSE(record.CanAdopt(held, "node1", UpTo(1, 1))) << "too many nodes";
  EXPECT_FALSE(record.CanAdopt(MakeGeneration(2, {"node1"}), "node1", UpTo(1, 2))) << "an older one";
  Assignment nonsense = held;
  nonsense.members[1].first_rank = 7;
  EXPECT_FALSE(record.CanAdopt(nonsense, "node1", UpTo(1, 2)));
  GenerationRecord newer = record;
  newer.Saw(5);
  EXPECT_FALSE(newer.CanAdopt(held, "node1", UpTo(1, 2))) << "a newer one exists";
  EXPECT_TRUE(newer.MayBeLast(held, UpTo(1, 2))) << "no newer one whose members are known";
}

TEST(GenerationRecord, GenerationKnownFromAReportCanBeAdopted) {
  GenerationRecord record;
  const Assignment heard = MakeGeneration(4, {"node1", "node2"});
  EXPECT_TRUE(record.MayBeLast(heard, UpTo(1, 2)));
  EXPECT_FALSE(record.MayBeLast(heard, UpTo(3, 4)));
  record.HearOf(heard);
  EXPECT_TRUE(record.known());
  EXPECT_FALSE(record.running());
  EXPECT_EQ(record.number(), 4u);
  EXPECT_TRUE(record.CanAdopt(heard, "node1", UpTo(1, 2)));
  EXPECT_FALSE(record.IsNews(Generation{3, 33}));
  record.Begin(heard);
  record.Stop();
  EXPECT_FALSE(record.CanAdopt(heard, "node1", UpTo(1, 2))) << "it ended here";
  record.Forget();
  EXPECT_FALSE(record.known());
  EXPECT_EQ(record.number(), 4u) << "the next one has a higher number";
}

/// One service wrote a generation down and died before any node learned of it; another one reused its number.
TEST(GenerationRecord, GenerationThatRunsIsAdoptedIfTwoHaveOneNumber) {
  GenerationRecord record;
  Assignment written = MakeGeneration(4, {"node1", "node2"});
  const Assignment runs = MakeGeneration(4, {"node2", "node3"});
  for (const uint64_t id : {runs.generation.id - 1, runs.generation.id + 1}) {
    written.generation.id = id;
    record.HearOf(written);
    EXPECT_TRUE(record.CanAdopt(runs, "node2", UpTo(1, 2)));
    EXPECT_TRUE(record.MayRunInstead(runs.generation)) << "what a member reports of it first is kept";
    EXPECT_FALSE(record.MayRunInstead(Generation{3, 33}));
    EXPECT_EQ(record.CanAdopt(runs, "node3", UpTo(1, 2)), record.IsNews(runs.generation))
        << "it cannot know whether the others run the first one";
    EXPECT_FALSE(record.CanAdopt(MakeGeneration(3, {"node2"}), "node2", UpTo(1, 2))) << "an older one";
  }
  record.Begin(written);
  EXPECT_FALSE(record.CanAdopt(runs, "node2", UpTo(1, 2))) << "it runs";
  EXPECT_EQ(record.MayRunInstead(runs.generation), record.IsNews(runs.generation));
}

TEST(GenerationRecord, IsAValue) {
  GenerationRecord a = Running(1, {"node1"}), b = a;
  EXPECT_EQ(a, b);
  b.Finish("node1");
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(), "generation 1 of 1 runs, finished {node1}");
}

}  // namespace
}  // namespace mtrun::rendezvous
