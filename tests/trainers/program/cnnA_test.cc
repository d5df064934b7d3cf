// Runs the program cnnA as a user starts it: alone, and as several manually started workers (RANK,
// WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
#include <signal.h>
#include <sys/stat.h>

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/support/port.h"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using support::FreePort;
using support::Program;
using support::ReadText;
using testing::Args;
using ::testing::HasSubstr;
using testing::LearnablePixel;
using testing::Steps;
using testing::WritePackedSet;

std::unique_ptr<Program> Start(Args args, const support::Overlay& overlay = testing::NoLauncher()) {
  return testing::Start("cnnA", std::move(args), overlay);
}

class CnnATest : public ::testing::Test {
 protected:
  std::string Data(const testing::SetShape& shape = {.train = 100, .test = 40}) {
    return WritePackedSet(folder_.path(), "data", shape, LearnablePixel);
  }
  /// Starts one worker for each rank of `world`.
  std::vector<std::unique_ptr<Program>> StartWorld(int world, const Args& args) {
    return testing::StartWorld("cnnA", world, args);
  }
  /// Expects the run to fail with this exit status, and returns its output.
  std::string Failure(const Args& args, int status) {
    const auto program = Start(args);
    EXPECT_EQ(program->Wait(), status) << program->Text();
    return program->Text();
  }

  support::TemporaryFolder folder_;
};

TEST_F(CnnATest, LearnsAndLeavesAReport) {
  const std::string run = folder_.File("run");
  const auto program = Start({"--data", Data({.train = 400, .test = 100}), "--model_folder", run, "--epochs",
                              "8", "--learning_rate", "0.05", "--momentum", "0.9"});
  ASSERT_EQ(program->Wait(), 0) << program->Text();
  EXPECT_THAT(program->Text(),
              ::testing::ContainsRegex("global_batch +16 +the recipe's, for any number of workers"));
  EXPECT_THAT(program->Text(), HasSubstr("epoch 8/8"));
  EXPECT_TRUE(program->WaitForLine("test accuracy  100.0 %").has_value()) << program->Text();
  const auto report = nlohmann::json::parse(ReadText(run + "/report.json"));
  EXPECT_EQ(report["test_accuracy"], 1.0);
  EXPECT_EQ(report["steps"], 200);
  EXPECT_THAT(ReadText(run + "/report.txt"), HasSubstr("confusion matrix"));
  EXPECT_THAT(ReadText(run + "/config.yaml"), HasSubstr("learning_rate: 0.05"));
  EXPECT_EQ(Steps(run).size(), 200u);
}

TEST_F(CnnATest, RunStartsByPrintingNonDefaultSettings) {
  const std::string data = Data();
  const auto train = [&](const std::string& run, const Args& more) {
    Args args = {"--data",      data, "--model_folder", folder_.File(run),
                 "--max_steps", "1",  "--batch_size",   "8"};
    args.insert(args.end(), more.begin(), more.end());
    return testing::Run("cnnA", 1, args);
  };
  const std::string some = train("some", {});
  EXPECT_THAT(some, HasSubstr("cnnA: settings that differ from the defaults (all: --settings all)\n"));
  EXPECT_THAT(some, ::testing::ContainsRegex("\n  batch_size +8 +flag\n"));
  EXPECT_THAT(some, ::testing::Not(HasSubstr("warmup_steps")));
  const std::string all = train("all", {"--settings", "all"});
  EXPECT_THAT(all, HasSubstr("cnnA settings\n"));
  EXPECT_THAT(all, ::testing::ContainsRegex("\n  batch_size +8 +flag\n"));
  EXPECT_THAT(all, ::testing::ContainsRegex("\n  warmup_steps +0 +default\n"));
}

/// 5 steps an epoch in micro-batches of 4; the last step has 2 samples, so that some workers are idle.
TEST_F(CnnATest, LossesAndWeightsDoNotDependOnTheNumberOfWorkers) {
  const std::string data = Data({.train = 50, .test = 21});
  std::vector<std::vector<testing::StepLine>> runs;
  for (const int world : {1, 2, 3, 4}) {
    const std::string run = folder_.File(absl::StrCat("run", world));
    const Args args = {"--data",
                       data,
                       "--model_folder",
                       run,
                       "--epochs",
                       "3",
                       "--global_batch",
                       "12",
                       "--batch_size",
                       "4",
                       "--precision",
                       "float64",
                       "--learning_rate",
                       "0.05",
                       "--momentum",
                       "0.9",
                       "--augment",
                       "--crop_padding",
                       "2",
                       "--seed",
                       "5"};
    const auto workers = StartWorld(world, args);
    for (const auto& worker : workers)
      ASSERT_EQ(worker->Wait(), 0) << "world " << world << "\n" << worker->Text();
    runs.push_back(Steps(run));
    EXPECT_TRUE(ReadText(run + "/model.safetensors") == ReadText(folder_.File("run1/model.safetensors")));
    EXPECT_EQ(nlohmann::json::parse(ReadText(run + "/report.json"))["confusion_rows_actual"],
              nlohmann::json::parse(ReadText(folder_.File("run1/report.json")))["confusion_rows_actual"]);
    for (int rank = 1; rank < world; ++rank)
      EXPECT_EQ(workers[rank]->OutLines().size(), 0u) << "only rank 0 prints";
  }
  ASSERT_EQ(runs[0].size(), 15u);
  EXPECT_EQ(runs[0][4].samples, 2);
  for (const auto& run : runs) {
    ASSERT_EQ(run.size(), runs[0].size());
    for (size_t k = 0; k < run.size(); ++k) {
      EXPECT_EQ(run[k].loss, runs[0][k].loss) << "to the last bit, in step " << k;
      EXPECT_EQ(run[k].samples, runs[0][k].samples);
    }
  }
}

TEST_F(CnnATest, StartsFromSavedWeights) {
  const std::string data = Data();
  const auto first = Start({"--data", data, "--model_folder", folder_.File("a"), "--max_steps", "3"});
  ASSERT_EQ(first->Wait(), 0) << first->Text();
  const std::string weights = folder_.File("a/model.safetensors");
  const auto second =
      Start({"--data", data, "--model_folder", folder_.File("b"), "--max_steps", "1", "--seed", "9",
             "--shuffle=false", "--learning_rate", "0", "--init_from", weights});
  ASSERT_EQ(second->Wait(), 0) << second->Text();
  const auto accuracy = [&](const std::string& run) {
    return nlohmann::json::parse(ReadText(folder_.File(run + "/report.json")))["test_loss"].get<double>();
  };
  EXPECT_EQ(accuracy("a"), accuracy("b"));
}

TEST_F(CnnATest, InvalidSettingsExitWithTwoAndTheReason) {
  EXPECT_THAT(Failure({"--lerning_rate", "1"}, 2), HasSubstr("--learning_rate"));
  EXPECT_THAT(Failure({}, 2), HasSubstr("--data is missing"));
  support::WriteText(folder_.File("c.yaml"), "cnnA:\n  epochs: 2\n  momentun: 0.9\n");
  EXPECT_THAT(Failure({"--data", "d", "--config", folder_.File("c.yaml")}, 2),
              ::testing::AllOf(HasSubstr("c.yaml:3"), HasSubstr("momentum")));
}

/// Tests see no GPU (MtTargets.cmake), so `cuda` is refused and `auto` uses the CPU.
TEST_F(CnnATest, MissingGpuRefusesCudaInOneSentenceAndAutoTrains) {
  const std::string data = Data();
  const auto refused = Start({"--data", data, "--model_folder", folder_.File("r"), "--device", "cuda"});
  EXPECT_EQ(refused->Wait(), 2);
  EXPECT_THAT(refused->ErrLines(),
              ::testing::ElementsAre(::testing::EndsWith(
                  "--device cuda: no GPU is usable here (no driver, no GPU, or a CPU-only LibTorch)")));
  EXPECT_THAT(Failure({"--data", data, "--model_folder", folder_.File("r"), "--graph"}, 2),
              HasSubstr("--graph: CUDA graphs need a GPU, but this worker computes on the CPU"));
  const auto trained = Start({"--data", data, "--model_folder", folder_.File("r"), "--max_steps", "1"});
  EXPECT_EQ(trained->Wait(), 0) << trained->Text();
  EXPECT_THAT(
      ReadText(folder_.File("r/config.yaml")),
      ::testing::AllOf(HasSubstr("device: cpu"), HasSubstr("resident: off"), HasSubstr("tf32: true")));
}

/// Exercises the code for a GPU that holds all images, here in the process's memory.
TEST_F(CnnATest, ResidentImagesGiveTheSameRun) {
  const std::string data = Data({.height = 30, .width = 27, .train = 50, .test = 21});
  for (const std::string resident : {"on", "off"}) {
    const auto program =
        Start({"--data", data, "--model_folder", folder_.File(resident), "--epochs", "2", "--learning_rate",
               "0.05", "--augment", "--crop_padding", "3", "--rotation", "10", "--resident", resident});
    ASSERT_EQ(program->Wait(), 0) << program->Text();
  }
  const auto on = Steps(folder_.File("on")), off = Steps(folder_.File("off"));
  ASSERT_EQ(on.size(), 8u);
  ASSERT_EQ(off.size(), on.size());
  for (size_t k = 0; k < on.size(); ++k) EXPECT_EQ(on[k].loss, off[k].loss) << "step " << k;
  EXPECT_EQ(testing::Report(folder_.File("on"))["test_loss"],
            testing::Report(folder_.File("off"))["test_loss"]);
}

TEST_F(CnnATest, UnusableInputsFailBeforeTraining) {
  const std::string data = Data();
  EXPECT_THAT(Failure({"--data", folder_.File("none")}, 2), HasSubstr(folder_.File("none")));
  EXPECT_THAT(Failure({"--data", data, "--image_size", "64"}, 2), HasSubstr("takes images of 32x32 only"));
  EXPECT_THAT(Failure({"--data", data, "--model_folder", "/proc/run"}, 2), HasSubstr("/proc/run"));
  support::WriteText(folder_.File("w.safetensors"), "?");
  EXPECT_THAT(Failure({"--data", data, "--model_folder", folder_.File("r"), "--init_from",
                       folder_.File("w.safetensors")},
                      2),
              HasSubstr("w.safetensors"));
}

TEST_F(CnnATest, ImagesOfAnotherSizeArePaddedOrOnDemandResized) {
  const std::string small =
      WritePackedSet(folder_.path(), "small", {.height = 28, .width = 28}, LearnablePixel);
  const auto padded = Start({"--data", small, "--model_folder", folder_.File("p"), "--max_steps", "1"});
  ASSERT_EQ(padded->Wait(), 0) << padded->Text();
  EXPECT_THAT(padded->Text(), HasSubstr("28x28 padded with black"));
  const std::string large =
      WritePackedSet(folder_.path(), "large", {.height = 48, .width = 48}, LearnablePixel);
  EXPECT_THAT(Failure({"--data", large, "--model_folder", folder_.File("l")}, 2),
              HasSubstr("--image_size 32"));
  const auto resized =
      Start({"--data", large, "--model_folder", folder_.File("l"), "--max_steps", "1", "--image_size", "32"});
  EXPECT_EQ(resized->Wait(), 0) << resized->Text();
}

TEST_F(CnnATest, NonFiniteLossIsNamedAndReportedToTheLauncher) {
  support::Overlay overlay = testing::NoLauncher();
  overlay["TORCHELASTIC_ERROR_FILE"] = folder_.File("error.json");
  const auto program =
      Start({"--data", Data(), "--model_folder", folder_.File("r"), "--learning_rate", "1e30"}, overlay);
  ASSERT_EQ(program->Wait(), 1);
  EXPECT_THAT(program->Text(),
              ::testing::ContainsRegex("the loss of step [0-9]+ is (nan|infinite) .in micro-batch 0"));
  EXPECT_THAT(ReadText(folder_.File("error.json")), HasSubstr("the loss of step"));
}

TEST_F(CnnATest, WorkersWithDifferentSettingsAreRefused) {
  const std::string data = Data();
  auto args = [&](const std::string& seed) {
    return Args{"--data", data, "--model_folder", folder_.File("r"), "--seed", seed};
  };
  const int port = FreePort();
  std::vector<std::unique_ptr<Program>> workers;
  for (int rank = 0; rank < 2; ++rank) {
    support::Overlay overlay = testing::NoLauncher();
    overlay["RANK"] = absl::StrCat(rank);
    overlay["WORLD_SIZE"] = "2";
    overlay["MASTER_ADDR"] = "127.0.0.1";
    overlay["MASTER_PORT"] = absl::StrCat(port);
    workers.push_back(Start(args(absl::StrCat(rank)), overlay));
  }
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->Wait(), 2);
    EXPECT_THAT(worker->Text(), HasSubstr("differ in "));
  }
}

TEST_F(CnnATest, SurplusWorkersAreReported) {
  const auto workers = StartWorld(3, {"--data", Data(), "--model_folder", folder_.File("r"), "--global_batch",
                                      "8", "--batch_size", "8", "--max_steps", "4"});
  for (const auto& worker : workers) ASSERT_EQ(worker->Wait(), 0) << worker->Text();
  EXPECT_THAT(workers[0]->Text(), HasSubstr("1 micro-batch for 3 workers"));
}

TEST_F(CnnATest, DeathOfAWorkerEndsTheOthersSoon) {
  const auto workers = StartWorld(3, {"--data", Data(), "--model_folder", folder_.File("r"), "--epochs",
                                      "1000000", "--batch_size", "4", "--log_every", "1"});
  ASSERT_TRUE(workers[0]->WaitForLine("step 20/").has_value()) << workers[0]->Text();
  workers[1]->Signal(SIGKILL);
  EXPECT_EQ(workers[1]->Wait(), 128 + SIGKILL);
  for (const int rank : {0, 2})
    EXPECT_EQ(workers[rank]->Wait(support::Seconds(30)), 1) << workers[rank]->Text();
  EXPECT_THAT(workers[0]->Text(), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace mtrun::trainers
