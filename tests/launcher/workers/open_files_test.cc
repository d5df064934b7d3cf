#include "launcher/workers/open_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OpenFiles, ThreeHundredWorkersFitIntoTheUsualLimitWithoutLogs) {
  EXPECT_LE(FilesOf(300, false), 1024u);
  EXPECT_FALSE(LogsFit(300, 1024));
  EXPECT_TRUE(LogsFit(180, 1024));
  EXPECT_TRUE(CheckOpenFiles(300, false, 1024).ok());
  EXPECT_THAT(LogsLeftOut(300, 1024),
              HasSubstr("300 workers need 1564 open files, but ulimit -n allows 1024"));
}

TEST(OpenFiles, WorkersThatDoNotFitAreRefused) {
  EXPECT_TRUE(CheckOpenFiles(480, false, 1024).ok());
  const absl::Status many = CheckOpenFiles(481, false, 1024);
  EXPECT_EQ(many.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(many.message()),
              AllOf(HasSubstr("481 workers"), HasSubstr("raise its hard limit")));
  const absl::Status logs = CheckOpenFiles(300, true, 1024);
  EXPECT_THAT(std::string(logs.message()), HasSubstr("leave --log_dir out"));
  EXPECT_TRUE(CheckOpenFiles(240, true, 1024).ok());
}

}  // namespace
}  // namespace mtrun::launcher
