#include "launcher/cli/program_answer.h"

#include <gmock/gmock.h>

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

absl::StatusOr<std::string> AnswerOfShell(const std::string& script, Duration limit = seconds(60)) {
  return AnswerOf({"/bin/sh", "-c", script}, limit);
}

TEST(ProgramAnswerTest, AnswerIsTheStandardOutput) {
  EXPECT_EQ(AnswerOfShell("echo 3.11.2; echo a warning >&2").value_or(""), "3.11.2\n");
  EXPECT_EQ(AnswerOfShell("read line || echo no input").value_or(""), "no input\n");
}

TEST(ProgramAnswerTest, FailureHasTheLastLineOfStandardError) {
  const absl::Status said =
      AnswerOfShell("echo first >&2; echo libtorch.so is missing >&2; exit 127").status();
  EXPECT_EQ(said.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(said.message(), "libtorch.so is missing");
  EXPECT_THAT(AnswerOfShell("exit 3").status().message(), HasSubstr("exit status 3"));
  EXPECT_THAT(AnswerOfShell("kill -SEGV $$").status().message(), HasSubstr("SIGSEGV"));
}

TEST(ProgramAnswerTest, ProgramThatCannotBeStartedIsNamed) {
  const absl::Status status = AnswerOf({"/nowhere/python3"}, seconds(60)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/python3"));
}

/// A child of it holds its output open.
TEST(ProgramAnswerTest, ProgramThatDoesNotEndIsKilledWithItsChildren) {
  const absl::Status status = AnswerOfShell("sleep 600 & sleep 600", milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("no answer within"));
}

TEST(ProgramAnswerTest, LongAnswerIsReadToItsEndAndKeptInPart) {
  const absl::StatusOr<std::string> answer = AnswerOfShell(
      "i=0; while [ $i -lt 3000 ]; do echo "
      "0123456789012345678901234567890123456789012345678; "
      "i=$((i+1)); done");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GE(answer->size(), size_t{64} << 10);
  EXPECT_LT(answer->size(), size_t{70} << 10);
}

}  // namespace
}  // namespace mtrun::launcher
