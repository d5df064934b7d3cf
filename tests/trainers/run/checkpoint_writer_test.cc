#include "trainers/run/files/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "tests/support/program.h"
#include "trainers/checkpoints/checkpoint.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log::SetSink([this](std::string line) { said_ += line; });
  }
  void TearDown() override { log::SetSink({}); }

  CheckpointWriter::Options Options(Duration grace, double last_seconds) const {
    return {.path = folder_.path(),
            .generation = 1,
            .keep_last = 3,
            .grace = grace,
            .last_seconds = last_seconds,
            .first = nullptr};
  }
  static checkpoints::Snapshot Empty(int64_t step) {
    checkpoints::Snapshot snapshot;
    snapshot.step = step;
    snapshot.state = "{}";
    return snapshot;
  }

  support::TemporaryFolder folder_;
  std::string said_;
};

TEST_F(CheckpointWriterTest, SaveLongerThanTheGraceIsReportedBeforeTheFirstStep) {
  const CheckpointWriter writer(Options(std::chrono::seconds(10), 12.5));
  EXPECT_THAT(said_, HasSubstr("the last checkpoint took 12.5 s"));
  EXPECT_THAT(said_, HasSubstr("--shutdown_timeout"));
  EXPECT_EQ(writer.last_seconds(), 12.5);
}

TEST_F(CheckpointWriterTest, FittingSaveOrUnknownGraceGivesNoWarning) {
  const CheckpointWriter fits(Options(std::chrono::seconds(10), 9.5));
  const CheckpointWriter unknown(Options(Duration::zero(), 1e6));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(CheckpointWriterTest, MeasuresEachSaveAndWarnsOnce) {
  CheckpointWriter writer(Options(std::chrono::nanoseconds(1), 0));
  for (const int64_t step : {1, 2}) {
    writer.Save(Empty(step), {});
    ASSERT_TRUE(writer.Wait().ok());
    EXPECT_GT(writer.last_seconds(), 0);
  }
  const size_t warning = said_.find("saving a checkpoint took ");
  ASSERT_NE(warning, std::string::npos);
  EXPECT_EQ(said_.find("saving a checkpoint took ", warning + 1), std::string::npos);
}

TEST_F(CheckpointWriterTest, FailedSaveDoesNotChangeTheDuration) {
  CheckpointWriter::Options options = Options(Duration::zero(), 2.5);
  bool fails = true;
  options.first = [&] { return fails ? absl::UnavailableError("no disk") : absl::OkStatus(); };
  CheckpointWriter writer(options);
  writer.Save(Empty(1), {});
  EXPECT_FALSE(writer.Wait().ok());
  EXPECT_EQ(writer.last_seconds(), 2.5);
  EXPECT_THAT(said_, HasSubstr("training continues: no disk"));
  fails = false;
  writer.Save(Empty(2), {});
  EXPECT_TRUE(writer.Wait().ok());
  EXPECT_THAT(said_, HasSubstr("saving works again"));
}

}  // namespace
}  // namespace mtrun::trainers
