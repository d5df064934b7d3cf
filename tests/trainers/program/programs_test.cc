// Runs the programs cnnB, vit, resnet18 and diffusion as a user starts them.
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"
#include "tests/support/port.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/models/resnet.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

using support::Program;
using support::ReadText;
using ::testing::AllOf;
using testing::Args;
using ::testing::HasSubstr;
using testing::LearnablePixel;
using testing::Report;
using testing::SetShape;
using testing::Start;
using ::testing::StartsWith;
using testing::StartWorld;
using testing::StepLine;
using testing::Steps;
using testing::WritePackedImages;
using testing::WritePackedSet;

/// For eleven million weights in float64 and three workers, on a machine that is busy otherwise.
constexpr support::Seconds kSlowest{180};

class ProgramsTest : public ::testing::Test {
 protected:
  std::string Data(const SetShape& shape = {.train = 24, .test = 6}) {
    return WritePackedSet(folder_.path(), "data", shape, LearnablePixel);
  }
  Args With(const std::string& data, const std::string& run, const Args& more) {
    Args args = {"--data", data, "--model_folder", folder_.File(run)};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Runs the program with 1, 2, 3 and 4 workers; the last step of the three is a short one. Expects the same
  /// losses, test loss and weights, to the last bit or within `tolerance`.
  void ExpectSameAtAnyWorldSize(const std::string& program, const Args& more, double tolerance = 0) {
    const std::string data = Data();
    std::vector<StepLine> alone;
    for (const int world : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(program, " with ", world, " workers"));
      const std::string run = absl::StrCat("run", world);
      Args args =
          With(data, run, {"--threads", "1", "--global_batch", "9", "--batch_size", "2", "--max_steps", "3"});
      args.insert(args.end(), more.begin(), more.end());
      testing::Run(program, world, args, kSlowest);
      const std::vector<StepLine> steps = Steps(folder_.File(run));
      if (world == 1) alone = steps;
      ASSERT_FALSE(steps.empty());
      ASSERT_EQ(steps.size(), alone.size());
      for (size_t k = 0; k < steps.size(); ++k) {
        EXPECT_NEAR(steps[k].loss, alone[k].loss, tolerance * std::abs(alone[k].loss)) << "step " << k;
      }
      const double want = Report(folder_.File("run1"))["test_loss"];
      EXPECT_NEAR(Report(folder_.File(run))["test_loss"].get<double>(), want, tolerance * want);
      for (const char* file : {"model.safetensors", "model_ema.safetensors"}) {
        if (tolerance != 0) continue;
        const auto bits = [&](const std::string& of) {
          return Sha256Hex(ReadText(folder_.File(of + "/" + file)));
        };
        EXPECT_EQ(bits(run), bits("run1")) << file;
      }
      if (tolerance == 0) ExpectSameBits(run);
    }
  }
  /// Compares losses, checkpoints with optimizer, and weights with those of "run1".
  void ExpectSameBits(const std::string& run) {
    Program verify(
        {"python3", support::TestFile("../tools/verify_bits"), folder_.File("run1"), folder_.File(run)});
    EXPECT_EQ(verify.Wait(), 0) << verify.Text();
    EXPECT_THAT(verify.Text(), AllOf(HasSubstr("/optimizer.safetensors: "), HasSubstr("evaluations: ")));
  }
  /// Expects the run to fail with this exit status, and returns its output.
  std::string Failure(const std::string& program, const Args& args, int status) {
    const auto failed = Start(program, args);
    EXPECT_EQ(failed->Wait(), status) << failed->Text();
    return failed->Text();
  }

  support::TemporaryFolder folder_;
};

/// Dropout, stochastic depth, rotation, translation, erasing and RandAugment belong to the micro-batch, not
/// to the worker.
TEST_F(ProgramsTest, VitIsTheSameAtAnyWorldSize) {
  ExpectSameAtAnyWorldSize(
      "vit", {"--augment", "--mixup", "0.4", "--cutmix", "1", "--rand_augment", "2", "--crop_padding", "2",
              "--warmup_steps", "2", "--schedule", "cosine", "--clip_norm", "1", "--ema_decay", "0.5"});
  EXPECT_FALSE(ReadText(folder_.File("run2/model_ema.safetensors")).empty());
}

/// Micro-batches are normalised separately; running statistics, used by evaluation, include all of them.
TEST_F(ProgramsTest, CnnBIsTheSameAtAnyWorldSize) { ExpectSameAtAnyWorldSize("cnnB", {"--amp", "bf16"}); }

TEST_F(ProgramsTest, CnnBWithSyncBatchNormIsTheSameAtAnyWorldSize) {
  ExpectSameAtAnyWorldSize("cnnB", {"--precision", "float64", "--sync_bn"}, 1e-7);
}

TEST_F(ProgramsTest, BalancedClassesAreTheSameAtAnyWorldSize) {
  ExpectSameAtAnyWorldSize("cnnA", {"--class_weights", "balanced", "--warmup_steps", "1"});
  EXPECT_THAT(ReadText(folder_.File("run2/config.yaml")), HasSubstr("class_weights: balanced"));
  const std::string data = folder_.File("data");
  EXPECT_THAT(Failure("diffusion", With(data, "d", {"--class_weights", "balanced"}), 2),
              HasSubstr("--class_weights changes the loss of classes: diffusion does not support that"));
  EXPECT_THAT(Failure("cnnA", With(data, "run1", {"--class_weights", "none"}), 2),
              HasSubstr("class_weights"));
}

TEST_F(ProgramsTest, DiffusionIsTheSameAtAnyWorldSize) {
  ExpectSameAtAnyWorldSize(
      "diffusion", {"--channels", "8", "--conditional", "--prediction", "v", "--noise_schedule", "cosine"});
}

TEST_F(ProgramsTest, ResNet18IsTheSameAtAnyWorldSize) {
  ExpectSameAtAnyWorldSize(
      "resnet18", {"--precision", "float64", "--eval_images", "3", "--train", "last", "--image_size", "64"});
}

/// Two workers keep features in one file. Whether features are kept does not change the result, and a complete
/// run leaves none behind.
TEST_F(ProgramsTest, ResNet18WithKeptFeaturesIsTheSame) {
  const std::string data = Data();
  const Args args = {"--threads",     "1",    "--global_batch",     "9",  "--batch_size", "2",
                     "--train",       "last", "--image_size",       "64", "--amp",        "bf16",
                     "--eval_images", "5",    "--checkpoint_steps", "4",  "--max_steps"};
  const auto train = [&](const std::string& run, int world, const Args& more) {
    Args all = With(data, run, args);
    all.insert(all.end(), more.begin(), more.end());
    testing::Run("resnet18", world, all, kSlowest);
  };
  const auto keeps = [&](const std::string& run) {
    return access(folder_.File(run + "/train.features").c_str(), F_OK) == 0;
  };
  train("run1", 1, {"9", "--keep_features=false"});
  EXPECT_FALSE(keeps("run1"));
  train("kept", 2, {"9"});
  ExpectSameBits("kept");
  EXPECT_FALSE(keeps("kept"));
}

/// Runs of two workers are repeated by one, from the start and from a checkpoint.
TEST_F(ProgramsTest, ReplayRepeatsARunAndNamesTheFirstStepThatDiffers) {
  const std::string run = folder_.File("run");
  testing::Run("cnnA", 2,
               With(Data(), "run",
                    {"--global_batch", "9", "--batch_size", "2", "--max_steps", "6", "--schedule", "cosine",
                     "--checkpoint_steps", "2", "--optimizer", "adamw", "--ema_decay", "0.5"}));
  const auto replay = [&](Args args) {
    args.insert(args.begin(), {"python3", support::TestFile("../tools/replay"), run, "--program",
                               support::BinaryFolder() + "/cnnA"});
    Program program(args);
    const int status = program.Wait().value_or(-1);
    return absl::StrCat(status, "\n", program.Text());
  };
  EXPECT_THAT(replay({}),
              AllOf(StartsWith("0\n"), HasSubstr("steps: 6 of 6"), HasSubstr("step_6/model.safetensors: all"),
                    HasSubstr("step_6/optimizer.safetensors: all")));
  // A checkpoint that waits for a slow disk is replaced by the next one, unless it is the best one.
  const int64_t from = access((run + "/step_4").c_str(), F_OK) == 0 ? 4 : 3, steps = 6 - from;
  EXPECT_THAT(replay({"--from", "4"}), AllOf(StartsWith("0\n"), HasSubstr(absl::StrCat("step_", from)),
                                             HasSubstr(absl::StrCat("steps: ", steps, " of ", steps))));
  EXPECT_THAT(replay({"--to", "2"}), AllOf(StartsWith("0\n"), HasSubstr("steps: 2 of 2")));
  const std::string ledger = run + "/ledger.jsonl", text = ReadText(ledger);
  const size_t loss = text.find("\"loss\":\"", text.find("\"step\":3,")) + 8;
  support::WriteText(ledger, text.substr(0, loss) + "1" + text.substr(loss));
  EXPECT_THAT(replay({}), AllOf(StartsWith("1\n"), HasSubstr("steps: 5 of 6"),
                                HasSubstr("the first that differs is 3:")));
}

TEST_F(ProgramsTest, DiffusionDrawsGridsAndSamplesWithoutTraining) {
  const std::string run = folder_.File("run");
  const Args network = {"--channels", "8", "--mults", "1,2", "--attention", "0", "--sample_steps", "3"};
  Args args = With(Data({.train = 8, .test = 0}), "run",
                   {"--max_steps", "4", "--batch_size", "4", "--sample_every", "2", "--sample_count", "4",
                    "--eval_images", "4", "--conditional", "--guidance", "1"});
  args.insert(args.end(), network.begin(), network.end());
  testing::Run("diffusion", 2, args);
  const std::string first = ReadText(run + "/samples_0000002.png"),
                    second = ReadText(run + "/samples_0000004.png");
  EXPECT_EQ(first.substr(1, 3), "PNG");
  EXPECT_EQ(second.substr(1, 3), "PNG");
  EXPECT_NE(first, second);
  EXPECT_EQ(Report(run).count("test_accuracy"), 0u) << "there are no classes to tell apart";
  // The network's shape comes from the run's config.yaml, its classes from the file.
  testing::Run("diffusion", 1, {"--sample", "4", "--model_folder", run});
  EXPECT_EQ(ReadText(run + "/samples.png"), second) << "the same weights, seed and settings";
  testing::Run("diffusion", 1, {"--sample", "4", "--model_folder", run, "--seed", "3"});
  EXPECT_NE(ReadText(run + "/samples.png"), second);
  EXPECT_THAT(Failure("diffusion", {"--sample", "4", "--model_folder", folder_.File("none")}, 1),
              HasSubstr("model_ema.safetensors"));
  EXPECT_THAT(Failure("diffusion", {"--sample", "4", "--model_folder", run, "--channels", "16"}, 1),
              HasSubstr("different shape"));
}

/// Weights may come from an untrusted source: bad contents give an error message, not an exception.
TEST_F(ProgramsTest, DiffusionRefusesImpossibleWeights) {
  const std::string weights = folder_.File("weights.safetensors");
  const Args sample = {"--sample", "1", "--model_folder", folder_.File("run"), "--init_from", weights};
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {8}, {0, 4}, {1LL << 50, 0}}) {
    ASSERT_TRUE(SaveTensors(weights, {{"class_embedding.weight", at::zeros(shape)}}, {}).ok());
    EXPECT_THAT(Failure("diffusion", sample, 1), HasSubstr("class_embedding.weight"))
        << at::IntArrayRef(shape);
  }
}

TEST_F(ProgramsTest, PreviewShowsAugmentedImagesAndTrainsNothing) {
  const std::string data = Data();
  testing::Run("vit", 1, With(data, "a", {"--preview", "12", "--batch_size", "5"}));
  testing::Run("vit", 1, With(data, "b", {"--preview", "12", "--batch_size", "5", "--augment=false"}));
  const std::string augmented = ReadText(folder_.File("a/preview.png"));
  EXPECT_EQ(augmented.substr(1, 3), "PNG");
  EXPECT_NE(augmented, ReadText(folder_.File("b/preview.png")));
  EXPECT_NE(access(folder_.File("a/metrics.jsonl").c_str(), F_OK), 0);
}

/// Two manually started workers, without any launcher, that get their ranks by the program's own flags.
TEST_F(ProgramsTest, ResNet18CanBeStartedByItsOwnFlags) {
  const std::string data = Data(), url = absl::StrCat("tcp://127.0.0.1:", support::FreePort());
  std::vector<std::unique_ptr<Program>> workers;
  for (const char* rank : {"0", "1"}) {
    workers.push_back(Start("resnet18", {"--data",
                                         data,
                                         "--checkpoint",
                                         folder_.File("run"),
                                         "--dist_url",
                                         url,
                                         "--world_size",
                                         "2",
                                         "--rank",
                                         rank,
                                         "--gpu_ids",
                                         "0",
                                         "--epochs",
                                         "1",
                                         "--batch_size",
                                         "1",
                                         "--accumulation_steps",
                                         "2",
                                         "--learning_rate",
                                         "0.001",
                                         "--max_steps",
                                         "1",
                                         "--eval_images",
                                         "2",
                                         "--image_size",
                                         "64"}));
  }
  for (const auto& worker : workers) ASSERT_EQ(worker->Wait(), 0) << worker->Text();
  EXPECT_THAT(workers[0]->Text(), HasSubstr("2 on 1 node"));
  EXPECT_EQ(Report(folder_.File("run"))["global_batch"], 4);
  EXPECT_THAT(Failure("resnet18", {"--data", data, "--world_size", "2", "--dist_url", "127.0.0.1:1"}, 2),
              HasSubstr("tcp://HOST:PORT"));
}

TEST_F(ProgramsTest, IncompatibleSettingsAreReported) {
  const std::string data = Data();
  EXPECT_THAT(Failure("vit", With(data, "r", {"--sync_bn"}), 2), HasSubstr("no batch normalisation"));
  EXPECT_THAT(Failure("cnnB", With(data, "r", {"--amp", "fp16"}), 2), HasSubstr("--amp fp16 needs a GPU"));
  EXPECT_THAT(Failure("cnnB", With(data, "r", {"--device", "cuda"}), 2), HasSubstr("no GPU is usable here"));
  EXPECT_THAT(Failure("diffusion", With(data, "r", {"--mults", "1,x"}), 2), HasSubstr("--mults 1,x"));
  EXPECT_THAT(Failure("diffusion", With(data, "r", {"--mults", "2,0"}), 2),
              HasSubstr("each level must be at least 1"));
  const std::string levels = absl::StrJoin(std::vector<int>(65, 1), ",");
  EXPECT_THAT(Failure("diffusion", With(data, "r", {"--mults", levels}), 2),
              HasSubstr("--mults has 65 levels, but the limit is 17"));
  EXPECT_THAT(Failure("diffusion", With(data, "r", {"--channels", "40"}), 2), HasSubstr("--channels 40"));
  EXPECT_THAT(Failure("resnet18", With(data, "r", {"--weights", folder_.File("none.pth")}), 2),
              HasSubstr("none.pth"));
  const std::string odd = WritePackedSet(folder_.path(), "odd",
                                         {.height = 30, .width = 30, .train = 4, .test = 2}, LearnablePixel);
  EXPECT_THAT(Failure("diffusion", With(odd, "r", {}), 2), HasSubstr("multiple of 8"));
  testing::Run("cnnB", 1, With(data, "a", {"--max_steps", "1", "--eval_images", "1", "--batch_size", "2"}));
  const std::string weights = folder_.File("a/model.safetensors");
  EXPECT_THAT(
      Failure("vit", With(data, "r", {"--init_from", weights}), 2),
      ::testing::AllOf(HasSubstr("does not contain this model's weights"), HasSubstr("embedding.cls_token")));
  const std::string text = ReadText(weights);
  support::WriteText(folder_.File("cut.safetensors"), text.substr(0, text.size() / 2));
  EXPECT_THAT(Failure("cnnB", With(data, "r", {"--init_from", folder_.File("cut.safetensors")}), 2),
              HasSubstr("cut.safetensors"));
}

TEST_F(ProgramsTest, ResNet18UsesTheNormalisationOfItsWeights) {
  const std::string data = Data(), weights = folder_.File("imagenet.safetensors");
  const models::ResNet net(/*seed=*/1, models::ResNet224(), /*classes=*/1000);
  ASSERT_TRUE(SaveTensors(weights, StateDict(net), {}).ok());
  const auto train = [&](const std::string& run, const Args& more) {
    Args args = With(data, run,
                     {"--weights", weights, "--image_size", "64", "--batch_size", "2", "--global_batch", "2",
                      "--eval_images", "2"});
    args.insert(args.end(), more.begin(), more.end());
    return testing::Run("resnet18", 1, args);
  };
  EXPECT_THAT(train("run", {"--max_steps", "1"}), HasSubstr("are normalised with --normalize imagenet"));
  EXPECT_THAT(ReadText(folder_.File("run/config.yaml")), HasSubstr("normalize: imagenet"));
  // Runs that were started before `auto` existed used this setting.
  EXPECT_THAT(train("half", {"--max_steps", "1", "--normalize", "half"}), HasSubstr("trained with imagenet"));
  EXPECT_THAT(train("half", {"--max_steps", "2"}), HasSubstr("step_1"));
  EXPECT_THAT(ReadText(folder_.File("half/config.yaml")), HasSubstr("normalize: half"));
}

TEST_F(ProgramsTest, LastLayerAloneHasALearningRateOfItsOwn) {
  const std::string data = Data(), weights = folder_.File("imagenet.safetensors");
  ASSERT_TRUE(SaveTensors(weights, StateDict(models::ResNet(1, models::ResNet224(), 1000)), {}).ok());
  const auto rate_of = [&](const std::string& run, const Args& more) {
    Args args = With(
        data, run, {"--image_size", "32", "--batch_size", "2", "--global_batch", "2", "--eval_images", "2"});
    args.insert(args.end(), more.begin(), more.end());
    testing::Run("resnet18", 1, args);
    const std::string config = ReadText(folder_.File(run + "/config.yaml"));
    const size_t at = config.find("learning_rate: ");
    return config.substr(at, config.find('\n', at) - at);
  };
  EXPECT_EQ(rate_of("last", {"--weights", weights, "--max_steps", "1"}), "learning_rate: 0.01");
  EXPECT_EQ(rate_of("all", {"--weights", weights, "--max_steps", "1", "--train", "all"}),
            "learning_rate: 0.001");
  EXPECT_EQ(rate_of("random", {"--max_steps", "1"}), "learning_rate: 0.001");
  // As begun by a release that derived no rate.
  EXPECT_EQ(rate_of("before", {"--weights", weights, "--max_steps", "1", "--learning_rate", "0.001"}),
            "learning_rate: 0.001");
  EXPECT_EQ(rate_of("before", {"--weights", weights, "--max_steps", "2"}), "learning_rate: 0.001");
}

TEST_F(ProgramsTest, ResNetOfAnotherDepthIsNamed) {
  const std::string data = Data(), weights = folder_.File("resnet50.safetensors");
  ASSERT_TRUE(SaveTensors(weights, StateDict(models::ResNet(1, models::ResNet224(50), 1000)), {}).ok());
  const std::string of_50 = ": it has the weights of 50 layers, not of ";
  const Args small = {"--weights",      weights, "--image_size", "32", "--max_steps",   "1",
                      "--global_batch", "2",     "--batch_size", "2",  "--eval_images", "2"};
  EXPECT_THAT(Failure("resnet18", With(data, "r18", small), 2),
              HasSubstr(of_50 + "18: run resnet --depth 50"));
  Args args = With(data, "r", small);
  args.insert(args.end(), {"--depth", "34"});
  EXPECT_THAT(Failure("resnet", args, 2), HasSubstr(of_50 + "34: run resnet --depth 50"));
  args.back() = "50";
  testing::Run("resnet", 1, args);
  EXPECT_THAT(ReadText(folder_.File("r/config.yaml")), HasSubstr("depth: 50"));
  args.back() = "34";
  EXPECT_THAT(Failure("resnet", args, 2), HasSubstr("depth"));
}

TEST_F(ProgramsTest, EvaluateComputesInThePrecisionOfTheRun) {
  const std::string data = Data({.train = 300, .test = 620}), run = folder_.File("run");
  testing::Run("cnnA", 1, With(data, "run", {"--learning_rate", "0.05", "--epochs", "1", "--amp", "bf16"}));
  const auto evaluated = [&](const Args& more) {
    Args args = {"--evaluate", run, "--data", data, "--out", folder_.File("evaluation.json")};
    args.insert(args.end(), more.begin(), more.end());
    testing::Run("cnnA", 1, args);
    return nlohmann::json::parse(ReadText(folder_.File("evaluation.json")))["loss"];
  };
  EXPECT_EQ(evaluated({}), Report(run)["test_loss"]);
  EXPECT_NE(evaluated({"--amp", "off"}), Report(run)["test_loss"]) << "as one asks";
  EXPECT_NE(evaluated({"--precision", "float64"}), Report(run)["test_loss"]) << "which excludes --amp";
}

/// With a learning rate that no network survives, the run stops and reports where, and what is left of it.
TEST_F(ProgramsTest, NonFiniteLossNamesStepMicroBatchesAndLastGoodCheckpoint) {
  const Args args = {"--global_batch", "4",     "--batch_size",       "2",   "--max_steps",     "12",
                     "--eval_images",  "1",     "--optimizer",        "sgd", "--learning_rate", "1e30",
                     "--warmup_steps", "0",     "--checkpoint_steps", "1",   "--augment=false", "--schedule",
                     "constant",       "--seed"};
  const std::string data = Data();
  Args broken = With(data, "r", args);
  broken.push_back("1");
  const std::string text = Failure("cnnB", broken, 1);
  EXPECT_THAT(text,
              ::testing::ContainsRegex("the loss of step [0-9]+ is (nan|infinite) \\(in micro-batch [01]"));
  EXPECT_THAT(text, HasSubstr("The last good checkpoint is " + folder_.File("r/step_")));
  Args none = With(data, "s", args);
  none.insert(none.end(), {"1", "--checkpoint_steps", "0"});
  EXPECT_THAT(Failure("cnnB", none, 1), HasSubstr("No checkpoint exists in " + folder_.File("s")));
}

/// The set's index declares fewer classes than its labels use.
TEST_F(ProgramsTest, LabelsOutOfRangeAreRefusedBeforeTraining) {
  const std::string data = WritePackedImages(
      folder_.path(), "labels", {.classes = 4, .train = 8, .test = 4}, [](int64_t i) { return i % 4; },
      LearnablePixel);
  const std::string shard = data + "/train/shard_00000.safetensors", text = ReadText(shard);
  // Labels precede the images, eight bytes each.
  std::string damaged = text;
  damaged[damaged.size() - 8 * 32 * 32 * 3 - 8] = 9;
  support::WriteText(shard, damaged);
  const std::string refused = Failure("cnnB", With(data, "r", {}), 2);
  EXPECT_THAT(refused, HasSubstr("label 9 of image 7 is out of range for 4 classes"));
}

/// bf16 on the CPU must be close to float32, but not as close as float32 rounding.
TEST_F(ProgramsTest, Bfloat16IsCloseToFloat32) {
  const std::string data = Data();
  const Args args = {
      "--global_batch", "8", "--batch_size", "4", "--max_steps", "3", "--eval_images", "1", "--augment=false",
      "--dropout",      "0", "--drop_path",  "0"};
  testing::Run("vit", 1, With(data, "plain", args));
  const auto want = Steps(folder_.File("plain"));
  ASSERT_EQ(want.size(), 3u);
  for (const int world : {1, 2}) {
    const std::string run = absl::StrCat("mixed", world);
    Args mixed = With(data, run, args);
    mixed.insert(mixed.end(), {"--amp", "bf16"});
    testing::Run("vit", world, mixed);
    const auto got = Steps(folder_.File(run));
    ASSERT_EQ(got.size(), want.size());
    double effect = 0;
    for (size_t i = 0; i < want.size(); ++i)
      effect = std::max(effect, std::abs(got[i].loss - want[i].loss) / want[i].loss);
    EXPECT_GT(effect, 2e-5) << "float32 was used: " << effect;
    EXPECT_LT(effect, 4e-3);
  }
}

}  // namespace
}  // namespace mtrun::trainers
