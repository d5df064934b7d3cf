#include "launcher/output/failure_causes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

OtherFailure Failure(int rank, const std::string& message, int exit_code = 1, int signal = 0) {
  return {.rank = rank,
          .local_rank = rank,
          .exit_code = exit_code,
          .signal = signal,
          .wall_time = "09:00:00",
          .message = message};
}

TEST(FailureCausesTest, CausesThatDifferOnlyInNumbersAreFolded) {
  const auto causes = FoldCauses({Failure(7, "RuntimeError: [rank7] peer 10.0.0.1:41234 is gone"),
                                  Failure(2, "ValueError: no such layer"),
                                  Failure(5, "RuntimeError: [rank5] peer 10.0.0.1:999 is gone\nTraceback")});
  ASSERT_THAT(causes, SizeIs(2));
  EXPECT_THAT(causes[0].ranks, ElementsAre(5, 7));
  EXPECT_EQ(causes[0].first.rank, 7);
  EXPECT_THAT(causes[1].ranks, ElementsAre(2));
}

TEST(FailureCausesTest, CausesWithDifferentExitCodesAreNotFolded) {
  EXPECT_THAT(FoldCauses({Failure(0, "x", 1), Failure(1, "x", 2), Failure(2, "x", 0, 9)}), SizeIs(3));
  EXPECT_THAT(FoldCauses({Failure(0, "", 0, 9), Failure(1, "", 0, 9)}), SizeIs(1));
}

TEST(FailureCausesTest, FailuresLikeTheRootCauseAreRemoved) {
  auto causes = FoldCauses({Failure(0, "x 1"), Failure(3, "y"), Failure(2, "x 2")});
  rendezvous::WorkerFailure root;
  root.exit_code = 1;
  root.message = "x 3\nTraceback";
  EXPECT_THAT(TakeAlike(root, &causes), ElementsAre(0, 2));
  ASSERT_THAT(causes, SizeIs(1));
  EXPECT_EQ(causes[0].first.message, "y");
  EXPECT_THAT(TakeAlike(root, &causes), IsEmpty());
}

TEST(FailureCausesTest, RanksAreWrittenAsRanges) {
  EXPECT_EQ(RanksText({3}), "rank 3");
  EXPECT_EQ(RanksText({0, 1, 2, 3, 7}), "ranks 0-3, 7");
  EXPECT_EQ(RanksText({0, 2, 4, 6, 8, 10, 12, 14}), "ranks 0, 2, 4, 6, 8, 10, 12, 14");
  EXPECT_EQ(RanksText({0, 2, 4, 6, 8, 10, 12, 14, 16, 17, 20}),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... and 3 more");
}

}  // namespace
}  // namespace mtrun::launcher
