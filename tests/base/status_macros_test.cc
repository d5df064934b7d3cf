#include "base/status_macros.h"

#include <gtest/gtest.h>

namespace mtrun {
namespace {

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  MT_ASSIGN_OR_RETURN(const int half, Half(n));
  MT_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status OnlyChecks(int n) {
  MT_RETURN_IF_ERROR(Half(n));
  MT_RETURN_IF_ERROR(Half(n).status());
  return absl::OkStatus();
}

TEST(StatusMacros, PassValuesAndReturnErrors) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_TRUE(OnlyChecks(2).ok());
  EXPECT_FALSE(OnlyChecks(3).ok());
}

TEST(StatusMacros, AnnotatePrefixesTheNounAndKeepsTheCode) {
  const absl::Status status = Annotate(absl::UnavailableError("refused"), "join 10.0.0.2:29400");
  EXPECT_EQ(status, absl::UnavailableError("join 10.0.0.2:29400: refused"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
  EXPECT_EQ(*Annotate(absl::StatusOr<int>(7), "x"), 7);
  const absl::StatusOr<int> none = Annotate(absl::StatusOr<int>(absl::UnavailableError("refused")), "join");
  EXPECT_EQ(none.status(), absl::UnavailableError("join: refused"));
}

TEST(StatusMacrosDeathTest, CheckPrintsConditionAndState) {
  const int rank = 5;
  EXPECT_DEATH(MT_CHECK(rank < 4) << "rank " << rank, "broken invariant: rank < 4 rank 5");
}

TEST(StatusMacros, CheckIsOneStatement) {
  int reached = 0;
  if (reached == 1)
    MT_CHECK(false) << "never";
  else
    reached = 2;
  EXPECT_EQ(reached, 2);
}

}  // namespace
}  // namespace mtrun
