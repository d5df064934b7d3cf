#include "trainers/engine/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/engine/support/rank_threads.h"

namespace mtrun::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunRanks;

TEST(Agreement, AloneThereIsNothingToCompare) { EXPECT_TRUE(CheckAgreement(nullptr, {{"data", "a"}}).ok()); }

TEST(Agreement, EqualTextsPass) {
  RunRanks(3, [](int, const collectives::ProcessGroup& group) {
    EXPECT_TRUE(CheckAgreement(group, {{"data", "a"}, {"settings", ""}}).ok());
  });
}

TEST(Agreement, EverybodyHearsWhatDiffersAndWhatItsOwnTextIs) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    const absl::Status status =
        CheckAgreement(group, {{"program", "cnnA"}, {"data", rank == 1 ? "abc" : "xyz"}});
    ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(rank == 1 ? "data (here: abc)" : "data (here: xyz)"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("program")));
  });
}

}  // namespace
}  // namespace mtrun::engine
