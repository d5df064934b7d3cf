#include "trainers/run/records/tensorboard_log.h"

#include <chrono>
#include <filesystem>

#include "datasets/images/png.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/tensorboard/read_events.h"
#include "trainers/run/files/run_files.h"

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Points = std::vector<std::pair<int64_t, double>>;

class TensorboardLogTest : public testing::Test {
 protected:
  RunFiles::Options In() const {
    RunFiles::Options options;
    options.path = folder_.path();
    options.settings = "cnnA:\n  seed: 1\n";
    options.ledger = {.run = 0, .seed = 1, .size = 8, .global_batch = 2, .micro_batch = 2, .data = "digest"};
    options.remember = true;
    options.tensorboard = true;
    options.sample_ids = [](int64_t) { return "ids"; };
    return options;
  }
  static RunFiles::Start At(int64_t steps, uint64_t generation, std::vector<EvalRecord> evaluations = {}) {
    RunFiles::Start start{.run = 77,
                          .generation = generation,
                          .position = {steps == 0 ? 0 : std::max<uint64_t>(generation, 2) - 1, steps},
                          .fresh = steps == 0};
    if (!evaluations.empty()) start.confusion = {1, 0, 0, 1};
    start.evaluations = std::move(evaluations);
    return start;
  }
  static FinishedStep Step(int64_t step, double loss = 1) {
    FinishedStep finished;
    finished.record = {
        .step = step, .epoch = 1, .loss = loss, .learning_rate = 0.5, .samples = 4, .seconds = 0.25};
    finished.world = 2;
    finished.correct = 3;
    finished.times = {.compute = 0.125, .wait = 0.0625, .data = 0.0625};
    return finished;
  }
  static void Record(RunFiles& files, std::initializer_list<int64_t> steps, double loss) {
    for (const int64_t step : steps) ASSERT_TRUE(files.Record(Step(step, loss), MonotonicNow()).ok());
  }
  std::vector<tensorboard::SeenFile> Seen() const { return tensorboard::ReadEventFolder(folder_.File("tb")); }
  std::vector<int64_t> Shown(const std::string& tag) const { return tensorboard::StepsOf(Seen(), tag); }
  Points Curve(const std::string& tag) const { return tensorboard::CurveOf(Seen(), tag); }

  const support::TemporaryFolder folder_;
};

TEST_F(TensorboardLogTest, ShowsAStepAndItsGauges) {
  RunFiles files(In());
  ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
  Record(files, {0, 1}, 2);
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(Curve("loss/train"), (Points{{0, 2}, {1, 2}}));
  EXPECT_EQ(Curve("accuracy/train"), (Points{{0, 0.75}, {1, 0.75}}));
  EXPECT_EQ(Curve("time/compute"), (Points{{0, 0.125}}));  // once a second
  EXPECT_EQ(Curve("throughput/images_per_second"), (Points{{0, 16}}));
  EXPECT_EQ(Curve("run/world_size"), (Points{{0, 2}}));
  EXPECT_GT(Curve("run/memory_mib").at(0).second, 1);
  const auto first = Seen().at(0);
  EXPECT_THAT(first.events.at(2).texts, ElementsAre(Pair("settings", HasSubstr("seed: 1"))));
}

TEST_F(TensorboardLogTest, ShowsGpuGaugesOnlyOfSampledSteps) {
  RunFiles files(In());
  ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
  FinishedStep step = Step(0);
  step.gpu_busy_percent = 87;
  step.gpu_memory = 3 << 20;
  ASSERT_TRUE(files.Record(step, MonotonicNow()).ok());
  ASSERT_TRUE(files.Record(Step(1), MonotonicNow()).ok());
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(Curve("gpu/utilization_percent"), (Points{{0, 87}}));
  EXPECT_EQ(Curve("gpu/memory_mib"), (Points{{0, 3}}));
}

/// The whole job is killed twice after step 4, and continues each time from the checkpoint of 3 steps.
TEST_F(TensorboardLogTest, KilledRunStaysOneCurve) {
  for (const double loss : {1, 2, 3}) {
    RunFiles files(In());
    ASSERT_TRUE(files.BecomeWriter(At(loss == 1 ? 0 : 3, static_cast<uint64_t>(loss))).ok());
    if (loss == 1) Record(files, {0, 1, 2}, loss);
    Record(files, {3, 4}, loss);
    ASSERT_TRUE(files.Flush().ok());
  }
  EXPECT_EQ(Curve("loss/train"), (Points{{0, 1}, {1, 1}, {2, 1}, {3, 3}, {4, 3}}));
}

/// Another worker of the job continues; it remembers the records that the dead writer had not written.
TEST_F(TensorboardLogTest, NewWriterClosesTheGap) {
  RunFiles first(In()), second(In());
  ASSERT_TRUE(first.Enter({.who = {.rank = 0}}, At(0, 1), nullptr).ok());
  ASSERT_TRUE(second.Enter({.who = {.rank = 1}}, At(0, 1), nullptr).ok());
  Record(first, {0}, 1);
  ASSERT_TRUE(first.Flush().ok());
  Record(second, {0, 1, 2}, 2);
  ASSERT_TRUE(second.Enter({.who = {.rank = 0}}, At(3, 2), nullptr).ok());
  Record(second, {3}, 2);
  ASSERT_TRUE(second.Flush().ok());
  EXPECT_EQ(Curve("loss/train"), (Points{{0, 1}, {1, 2}, {2, 2}, {3, 2}}));
}

TEST_F(TensorboardLogTest, ValidationIsNotShownAsTest) {
  RunFiles files(In());
  ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
  Record(files, {0, 1}, 1);
  EvalRecord record{.steps = 2, .epoch = 1, .test_loss = 4, .test_accuracy = 0.25};
  record.validation = true;
  ASSERT_TRUE(files.Record(record, ConfusionMatrix(2)).ok());
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(Curve("accuracy/validation"), (Points{{2, 0.25}}));
  EXPECT_EQ(Curve("loss/validation"), (Points{{2, 4}}));
  EXPECT_EQ(Curve("loss/test"), Points());
}

TEST_F(TensorboardLogTest, EvaluationAtTheResumedStepIsKept) {
  const EvalRecord record{
      .steps = 2, .epoch = 1, .train_loss = 2, .train_accuracy = 0.5, .test_loss = 4, .test_accuracy = 0.25};
  ConfusionMatrix matrix(2);
  matrix.Add(0, 0);
  {
    RunFiles files(In());
    ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
    Record(files, {0, 1}, 1);
    ASSERT_TRUE(files.Record(record, matrix).ok());
    Record(files, {2}, 1);
    ASSERT_TRUE(files.Flush().ok());
  }
  RunFiles files(In());
  ASSERT_TRUE(files.BecomeWriter(At(2, 2, {record})).ok());
  Record(files, {2}, 3);
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(Curve("accuracy/test"), (Points{{2, 0.25}}));
  EXPECT_EQ(Curve("loss/test"), (Points{{2, 4}}));
  EXPECT_EQ(Curve("loss/train"), (Points{{0, 1}, {1, 1}, {2, 3}}));
  const auto newest = Seen().back();
  EXPECT_EQ(newest.events.at(newest.events.size() - 3).images.at("confusion").colorspace, 3);
}

TEST_F(TensorboardLogTest, PictureAtTheResumedStepIsKept) {
  const std::string path = folder_.File("samples.png");
  support::WriteText(path, datasets::EncodePng(datasets::MakeImage({1, 1})));
  {
    RunFiles files(In());
    ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
    files.AddPicture("preview", 0, path);
    for (const int64_t step : {0, 1, 2, 3}) {
      Record(files, {step}, 1);
      if (step % 2 == 1) files.AddPicture("samples", step + 1, path);
    }
    ASSERT_TRUE(files.Flush().ok());
  }
  EXPECT_EQ(Shown("samples").size(), 2u);
  for (const int64_t steps : {4, 3, 2}) {
    RunFiles files(In());
    ASSERT_TRUE(files.BecomeWriter(At(steps, 2)).ok());
    EXPECT_EQ(Shown("samples").size(), steps == 4 ? 2u : 1u) << steps;
  }
  EXPECT_THAT(Shown("preview"), ElementsAre(0));
}

/// New settings are shown too.
TEST_F(TensorboardLogTest, SettingsOfAWriterWithoutStepsAreShownByTheNextOne) {
  RunFiles::Options options = In();
  std::vector<int64_t> shown;
  uint64_t generation = 0;
  for (const int64_t steps : {0, 2}) {
    shown.push_back(steps);
    for (const bool takes_steps : {false, true}) {
      RunFiles::Start start = At(steps, ++generation);
      start.fresh = generation == 1;
      RunFiles files(options);
      ASSERT_TRUE(files.BecomeWriter(start).ok());
      if (takes_steps) Record(files, {steps, steps + 1}, 1);
      ASSERT_TRUE(files.Flush().ok());
      EXPECT_EQ(Shown("settings"), shown) << generation;
    }
    options.settings = "cnnA:\n  seed: 2\n";
  }
}

TEST_F(TensorboardLogTest, DisabledBoardCreatesNoFolder) {
  RunFiles::Options options = In();
  options.tensorboard = false;
  RunFiles files(options);
  ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
  Record(files, {0}, 1);
  EXPECT_FALSE(files.draws());
  EXPECT_FALSE(std::filesystem::exists(folder_.File("tb")));
}

TEST_F(TensorboardLogTest, UnwritableFolderDoesNotStopTheRun) {
  support::WriteText(folder_.File("tb"), "a file");
  RunFiles files(In());
  ASSERT_TRUE(files.BecomeWriter(At(0, 1)).ok());
  Record(files, {0}, 1);
  EXPECT_TRUE(files.Flush().ok());
}

}  // namespace
}  // namespace mtrun::trainers
