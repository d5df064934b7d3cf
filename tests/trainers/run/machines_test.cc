#include "trainers/run/rules/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Machines, OfOneKindNameNoRanks) {
  EXPECT_EQ(MachinesOf({"A", "A", "A"}), (Machines{.kinds = {"A"}, .by_rank = ""}));
  EXPECT_THAT(MachinesOf({"", ""}).kinds, IsEmpty()) << "members that do not say it";
}

TEST(Machines, OfSeveralKindsNameTheRanksOfEach) {
  EXPECT_EQ(MachinesOf({"B", "A", "B"}),
            (Machines{.kinds = {"A", "B"}, .by_rank = "A (rank 1), B (ranks 0, 2)"}));
  EXPECT_EQ(MachinesOf({"A", ""}).by_rank, "nothing (rank 1), A (rank 0)");
}

TEST(Machines, ThatTheRunKnowsAreNotDescribed) {
  EXPECT_EQ(DescribeOtherMachines({}, MachinesOf({"A"}), 0), "") << "a run that begins";
  EXPECT_EQ(DescribeOtherMachines({"A"}, MachinesOf({"A", "A"}), 5), "");
  EXPECT_EQ(DescribeOtherMachines({"A", "B"}, MachinesOf({"B", "A"}), 5), "") << "said before";
  EXPECT_EQ(DescribeOtherMachines({"A", "B"}, MachinesOf({"B"}), 5), "");
  EXPECT_EQ(DescribeOtherMachines({"A"}, MachinesOf({""}), 5), "");
}

TEST(Machines, ThatAreNewAreDescribed) {
  EXPECT_THAT(DescribeOtherMachines({}, MachinesOf({"A", "B"}), 0), HasSubstr("A (rank 0), B (rank 1)"));
  EXPECT_THAT(DescribeOtherMachines({"A"}, MachinesOf({"A", "B"}), 7), HasSubstr("B (rank 1)"));
  EXPECT_EQ(DescribeOtherMachines({"A"}, MachinesOf({"B", "B"}), 7),
            "this run was computed on A and continues on B: its last bits can differ from step 7 on");
}

TEST(Machines, OfARunAreKept) {
  EXPECT_THAT(AllKinds({"B"}, MachinesOf({"A", "C", "B"})), ElementsAre("A", "B", "C"));
  EXPECT_THAT(AllKinds({}, MachinesOf({""})), IsEmpty());
}

}  // namespace
}  // namespace mtrun::trainers
