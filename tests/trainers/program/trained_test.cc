// Tests the uses of a trained network as a user starts them: --evaluate, --predict, --export, best and
// latest, validation and early stopping.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "datasets/images/image.h"
#include "datasets/images/png.h"
#include "datasets/packed/packed.h"
#include "nlohmann/json.hpp"
#include "tests/support/peers_python.h"
#include "tests/trainers/support/encoded_set.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/models/unet.h"
#include "trainers/tasks/diffusion_schedule.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using support::ReadText;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::Args;
using ::testing::HasSubstr;
using testing::LearnablePixel;
using ::testing::Not;
using testing::Report;
using testing::WritePackedSet;

constexpr support::Seconds kSlow{180};

class TrainedTest : public ::testing::Test {
 protected:
  std::string Data(const testing::SetShape& shape = {.train = 300, .test = 620}) {
    return WritePackedSet(folder_.path(), "data", shape, LearnablePixel);
  }
  Args Train(const std::string& data, const std::string& run, const Args& more = {}) {
    Args args = {"--data", data, "--model_folder", folder_.File(run), "--learning_rate", "0.05"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  json Evaluate(const std::string& what, const std::string& data, int world = 1) {
    const std::string out = folder_.File("evaluation.json");
    std::error_code ignored;
    fs::remove(out, ignored);
    testing::Run("cnnA", world, {"--evaluate", what, "--data", data, "--out", out}, kSlow);
    return json::parse(ReadText(out));
  }
  std::string Failure(const std::string& program, const Args& args) {
    const auto started = testing::Start(program, args);
    EXPECT_EQ(started->Wait(), 2) << started->Text();
    return started->Text();
  }
  /// Writes the first `count` test images as files (PNG if stored as pixels) and returns their paths.
  std::vector<std::string> WriteImages(const std::string& data, int64_t count) {
    const auto split = datasets::PackedSplit::Open(data, "test");
    fs::create_directories(folder_.File("png"));
    std::vector<std::string> files;
    for (int64_t i = 0; i < count; ++i) {
      files.push_back(folder_.File(absl::StrCat("png/", 1000 + i, ".png")));
      std::ofstream(files.back(), std::ios::binary) << FileOf(*split, i);
    }
    return files;
  }
  static std::string FileOf(const datasets::PackedSplit& split, int64_t id) {
    if (split.encoded()) return std::string(split.record(id));
    const auto pixels = split.image(id);
    return datasets::EncodePng({{split.height(), split.width()}, {pixels.begin(), pixels.end()}});
  }
  std::vector<json> Predict(const std::string& program, const std::string& weights, const Args& files) {
    const std::string out = folder_.File("predictions.jsonl");
    Args args = {"--weights_of", weights, "--out", out, "--top_k", "10", "--predict"};
    args.insert(args.end(), files.begin(), files.end());
    testing::Run(program, 1, args, kSlow);
    std::vector<json> lines;
    for (const absl::string_view line : absl::StrSplit(ReadText(out), '\n', absl::SkipEmpty()))
      lines.push_back(json::parse(line.begin(), line.end()));
    return lines;
  }
  /// Runs a script with the peers' Python and returns its output.
  std::string Python(const std::string& script, const Args& args) {
    const std::string file = folder_.File("check.py");
    std::ofstream(file) << script;
    Args words = {support::PeersPython(), file};
    words.insert(words.end(), args.begin(), args.end());
    support::Program python(words, testing::NoLauncher());
    EXPECT_EQ(python.Wait(kSlow), 0) << python.Text();
    return python.Text();
  }

  const support::TemporaryFolder folder_;
};

/// 620 test images are three batches, the same for any number of workers.
TEST_F(TrainedTest, EvaluateMatchesTheRunAtAnyWorldSize) {
  const std::string data = Data(), run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "2"}), kSlow);
  const json report = Report(run);
  for (const int world : {1, 2, 4}) {
    const json evaluation = Evaluate(run, data, world);
    EXPECT_EQ(evaluation["confusion_rows_actual"], report["confusion_rows_actual"]) << world;
    EXPECT_NEAR(evaluation["loss"].get<double>(), report["test_loss"].get<double>(),
                1e-12 * report["test_loss"].get<double>())
        << world;
  }
  for (const char* what : {"latest", "model.safetensors", "step_38"}) {
    const json evaluation = Evaluate(absl::StrCat(run, "/", what), data);
    EXPECT_EQ(evaluation["confusion_rows_actual"], report["confusion_rows_actual"]) << what;
  }
}

/// Training used random crops, at first small ones; test images have another size, and their centre is used.
TEST_F(TrainedTest, EvaluateSeesTestImagesLikeTheRun) {
  const std::string data = testing::WriteEncodedSet(folder_.path(), "data", {7, 5}, 20),
                    run = folder_.File("run");
  testing::Run("resnet18", 1, Train(data, "run", {"--epochs",          "2",
                                                  "--batch_size",      "4",
                                                  "--image_size",      "64",
                                                  "--image_size_from", "32",
                                                  "--grow_after",      "1",
                                                  "--grown_after",     "1",
                                                  "--augment",         "--random_resized_crop",
                                                  "--eval_image_size", "48",
                                                  "--eval_part",       "0.75",
                                                  "--label_smoothing", "0.1",
                                                  "--zero_init"}),
               kSlow);
  const std::string out = folder_.File("evaluation.json");
  testing::Run("resnet18", 1, {"--evaluate", run, "--data", data, "--out", out}, kSlow);
  const json evaluation = json::parse(ReadText(out)), report = Report(run);
  EXPECT_EQ(evaluation["confusion_rows_actual"], report["confusion_rows_actual"]);
  EXPECT_NEAR(evaluation["loss"].get<double>(), report["test_loss"].get<double>(), 1e-6);
  json notable = json::parse(ReadText(run + "/notable.json"));
  EXPECT_EQ(notable["uncertain"].size(), 20u);
  for (const char* list : {"mistakes", "uncertain"}) {
    for (json& image : notable[list])
      EXPECT_EQ(image["png"].get<std::string>().substr(0, 7), "iVBORw0") << image;
    for (json& image : notable[list]) image.erase("png");
  }
  EXPECT_EQ(notable, evaluation["notable"]);
  EXPECT_THAT(ReadText(run + "/report.html"), HasSubstr("Least certain images"));
}

/// Normalisation, size and crop are those of the training, even without a config.yaml beside the weights.
TEST_F(TrainedTest, WeightsOutsideTheirRunSeeTheSameImages) {
  const std::string data = testing::WriteEncodedSet(folder_.path(), "data", {12}, 20),
                    run = folder_.File("run"), out = folder_.File("evaluation.json");
  testing::Run("resnet18", 1,
               Train(data, "run",
                     {"--epochs", "1", "--batch_size", "4", "--image_size", "64", "--normalize", "imagenet",
                      "--eval_part", "0.75"}),
               kSlow);
  const double loss = Report(run)["test_loss"];
  const auto evaluate = [&](const std::string& what) {
    testing::Run("resnet18", 1, {"--evaluate", what, "--data", data, "--out", out}, kSlow);
    return json::parse(ReadText(out))["loss"].get<double>();
  };
  const std::string saved = fs::canonical(run + "/latest").string() + "/model.safetensors";
  EXPECT_NEAR(evaluate(run), loss, 1e-9 * loss);
  EXPECT_NEAR(evaluate(saved), loss, 1e-9 * loss) << "of the run that the checkpoint is of";
  fs::copy_file(run + "/model.safetensors", folder_.File("copy.safetensors"));
  EXPECT_NEAR(evaluate(folder_.File("copy.safetensors")), loss, 1e-9 * loss);
  testing::Run("resnet18", 1, {"--export", folder_.File("export"), "--weights_of", run}, kSlow);
  EXPECT_NEAR(evaluate(folder_.File("export")), loss, 1e-9 * loss);
}

TEST_F(TrainedTest, AveragedWeightsAreUsed) {
  const std::string data = Data({.train = 100, .test = 40}), run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "1", "--ema_decay", "0.9"}), kSlow);
  const double loss = Report(run)["test_loss"];
  EXPECT_NEAR(Evaluate(run, data)["loss"].get<double>(), loss, 1e-12 * loss);
  EXPECT_NEAR(Evaluate(run + "/latest", data)["loss"].get<double>(), loss, 1e-12 * loss)
      << "of the checkpoint";
}

TEST_F(TrainedTest, WeightsOfAnotherProgramAreRefusedByName) {
  const std::string data = Data({.train = 32, .test = 10}), run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "1"}), kSlow);
  EXPECT_THAT(Failure("cnnB", {"--evaluate", run + "/latest", "--data", data}),
              HasSubstr("was trained by cnnA, not by cnnB"));
  EXPECT_THAT(Failure("cnnB", {"--predict", data, "--weights_of", run + "/model.safetensors"}),
              AnyOf(HasSubstr("was trained by cnnA, not by cnnB"), HasSubstr("no .jpg")));
  EXPECT_THAT(Failure("cnnA", {"--evaluate", folder_.File("none"), "--data", data}),
              HasSubstr("does not exist"));
  EXPECT_THAT(Failure("cnnA", {"--evaluate", data, "--data", data}), HasSubstr("contains no weights"));
  EXPECT_THAT(Failure("cnnA", {"--evaluate", run, "--export", run, "--data", data}),
              HasSubstr("exclude each other"));
  const std::string other =
      WritePackedSet(folder_.path(), "other", {.classes = 3, .train = 30, .test = 9}, LearnablePixel);
  EXPECT_THAT(Failure("cnnA", {"--evaluate", run, "--data", other}), HasSubstr("class 3 of "));
}

TEST_F(TrainedTest, PredictReadsImagesOfAnySize) {
  const std::string data = Data(), run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "3", "--momentum", "0.9"}), kSlow);
  WriteImages(data, 40);
  std::ofstream(folder_.File("png/broken.png")) << "no image";
  const datasets::RgbImage wide = datasets::MakeImage({50, 400});
  std::ofstream(folder_.File("png/wide.png"), std::ios::binary) << datasets::EncodePng(wide);
  const std::vector<json> lines = Predict("cnnA", run, {folder_.File("png")});
  ASSERT_EQ(lines.size(), 42u);
  const auto split = datasets::PackedSplit::Open(data, "test");
  int right = 0;
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(lines[i]["file"], folder_.File(absl::StrCat("png/", 1000 + i, ".png"))) << "in order of names";
    double sum = 0;
    for (const json& top : lines[i]["top"]) sum += top["probability"].get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
    right += lines[i]["top"][0]["class"] == split->class_names()[split->label(i)] ? 1 : 0;
  }
  EXPECT_GT(right, 35) << "the network has learnt them: it was given what it was trained with";
  EXPECT_THAT(lines[40]["error"].get<std::string>(), HasSubstr("not a JPEG or PNG image"));
  EXPECT_EQ(lines[41]["top"].size(), 10u);
}

TEST_F(TrainedTest, IncompleteOutputIsAFailure) {
  const std::string data = Data({.train = 30, .test = 9}), run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "1"}), kSlow);
  for (const Args& question : {Args{"--predict", WriteImages(data, 1)[0], "--weights_of", run},
                               Args{"--evaluate", run, "--data", data}, Args{"--help"}, Args{"--version"}}) {
    Args words = {"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh", support::BinaryFolder() + "/cnnA"};
    words.insert(words.end(), question.begin(), question.end());
    support::Program cnn_a(words, testing::NoLauncher());
    EXPECT_EQ(cnn_a.Wait(kSlow), 1) << question[0];
    EXPECT_THAT(cnn_a.Text(), HasSubstr("write to standard output: No space left on device"));
  }
}

/// Larger images stored as pixels are resized whole, whatever their shape; so are their files.
TEST_F(TrainedTest, PredictStretchesPixelsLikeTraining) {
  const std::string data = Data({.height = 48, .width = 64, .train = 300, .test = 60}),
                    run = folder_.File("run");
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "3", "--momentum", "0.9", "--image_size", "32"}),
               kSlow);
  const auto split = datasets::PackedSplit::Open(data, "test");
  json counts = json::parse(
      absl::StrCat("[", absl::StrJoin(std::vector<std::string>(10, "[0,0,0,0,0,0,0,0,0,0]"), ","), "]"));
  for (const json& line : Predict("cnnA", run, WriteImages(data, split->size()))) {
    const int64_t id = std::stoll(fs::path(line["file"].get<std::string>()).stem()) - 1000;
    const std::string best = line["top"][0]["class"];
    const json& names = split->class_names();
    json& cell = counts[split->label(id)][std::find(names.begin(), names.end(), best) - names.begin()];
    cell = cell.get<int64_t>() + 1;
  }
  EXPECT_EQ(Evaluate(run, data)["confusion_rows_actual"], counts);
}

TEST_F(TrainedTest, BestIsChosenByValidationAndTestedOnce) {
  const std::string data = Data({.train = 200, .test = 60}), run = folder_.File("run");
  const std::string text =
      testing::Run("cnnA", 2,
                   Train(data, "run",
                         {"--epochs", "30", "--validation_share", "0.2", "--early_stopping_epochs", "2",
                          "--momentum", "0.9", "--keep_checkpoints", "1"}),
                   kSlow);
  const json report = Report(run);
  EXPECT_TRUE(report["chosen_by_validation"]);
  const int64_t best = report["best_epoch"], epochs = report["epochs"];
  EXPECT_EQ(report["tested_epoch"], best);
  EXPECT_LT(epochs, 30) << text;
  EXPECT_EQ(epochs, best + 2);
  EXPECT_THAT(text,
              AllOf(HasSubstr("  val loss "), HasSubstr("stops early"), Not(HasSubstr("  test loss "))));
  int64_t images = 0;
  for (const json& row : report["confusion_rows_actual"])
    images += std::accumulate(row.begin(), row.end(), int64_t{0},
                              [](int64_t sum, const json& n) { return sum + n.get<int64_t>(); });
  EXPECT_EQ(images, 60) << "the test images";
  EXPECT_EQ(ReadText(run + "/metrics.jsonl").find("test_loss"), std::string::npos);
  const std::string step = fs::read_symlink(run + "/best").string();
  EXPECT_EQ(step, absl::StrCat("step_", best * 10)) << "160 images, 16 a step";
  EXPECT_TRUE(fs::exists(run + "/best/DONE"));
  EXPECT_EQ(fs::read_symlink(run + "/latest").string(), absl::StrCat("step_", epochs * 10));
  const double loss = report["test_loss"];
  for (const char* what : {"", "/best", "/model_best.safetensors"})
    EXPECT_NEAR(Evaluate(run + what, data)["loss"].get<double>(), loss, 1e-12 * loss) << what;
  support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), run, "--data", data});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text();
}

TEST_F(TrainedTest, ContinuedRunKeepsItsValidationShare) {
  const std::string data = Data({.train = 100, .test = 20});
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "1", "--validation_share", "0.2"}), kSlow);
  EXPECT_THAT(Failure("cnnA", Train(data, "run", {"--epochs", "2"})), HasSubstr("validation_share is 0.2"));
  testing::Run("cnnA", 1, Train(data, "run", {"--epochs", "2", "--validation_share", "0.2"}), kSlow);
}

// ---- --export

constexpr char kCompareClassifier[] = R"(
import json, sys
sys.path.insert(0, sys.argv[1])
import model, torch
from PIL import Image
network = model.load()
worst = 0
for line in open(sys.argv[2]):
    line = json.loads(line)
    with torch.no_grad(), Image.open(line['file']) as image:
        got = network(model.preprocess(image).to(next(network.parameters()).dtype)).double().softmax(1)[0]
    for top in line['top']:
        worst = max(worst, abs(float(got[model.CONFIG['classes'].index(top['class'])]) - top['probability']))
assert worst < float(sys.argv[3]), worst
from safetensors import safe_open
with safe_open(sys.argv[1] + '/model.safetensors', 'pt') as file:
    about = file.metadata()
assert json.loads(about['classes']) == model.CONFIG['classes'], about
assert about['program'] == model.CONFIG['program'] and about['pixels'].startswith('(x / 255 - 0.5)'), about
print('same', worst)
)";

class ExportTest : public TrainedTest {
 protected:
  void SetUp() override {
    if (support::PeersPython().empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  }
  /// `close`: the tolerance of probabilities; resized images can differ by one level in some pixels.
  void ExpectSameInPython(const std::string& program, const std::string& data, const Args& more,
                          const char* close = "1e-5") {
    Args args = Train(data, program, {"--max_steps", "2", "--batch_size", "4", "--eval_images", "4"});
    args.insert(args.end(), more.begin(), more.end());
    testing::Run(program, 1, args, kSlow);
    const std::string run = folder_.File(program), out = folder_.File(program + "-export");
    testing::Run(program, 1, {"--export", out, "--weights_of", run}, kSlow);
    Predict(program, run, WriteImages(data, 4));
    EXPECT_THAT(Python(kCompareClassifier, {out, folder_.File("predictions.jsonl"), close}),
                HasSubstr("same"));
  }
};

TEST_F(ExportTest, ClassifiersComputeTheSameInPyTorch) {
  const std::string data = Data({.height = 28, .width = 32, .train = 16, .test = 8});
  for (const char* program : {"cnnA", "cnnB", "vit"}) {
    SCOPED_TRACE(program);
    ExpectSameInPython(program, data, {});
  }
  ExpectSameInPython("resnet18", data, {"--image_size", "64", "--normalize", "imagenet"});
  ExpectSameInPython("resnet", data, {"--depth", "50", "--image_size", "64"});
}

TEST_F(ExportTest, PyTorchUsesTheSameCrop) {
  const std::string data = testing::WriteEncodedSet(folder_.path(), "data", {16}, 8);
  ExpectSameInPython("resnet18", data,
                     {"--image_size", "64", "--eval_part", "0.75", "--learning_rate", "0.001"}, "1e-3");
}

/// Larger pixel images are stretched as a whole.
TEST_F(ExportTest, PyTorchStretchesPixelsLikeTraining) {
  const std::string data = Data({.height = 48, .width = 64, .train = 16, .test = 8});
  ExpectSameInPython("cnnA", data,
                     {"--image_size", "32", "--eval_part", "0.75", "--max_steps", "60", "--epochs", "20",
                      "--momentum", "0.9"},
                     "1e-2");
}

constexpr char kRunUnet[] = R"(
import sys
sys.path.insert(0, sys.argv[1])
import model, torch
from safetensors.torch import load_file
import accelerate
given = load_file(sys.argv[2])
assert torch.allclose(model.betas(), given['betas'], rtol=1e-9), model.betas()
accelerate.load_checkpoint_in_model(model.Model(), sys.argv[1] + '/model.safetensors')  # refuses files without a format
with torch.no_grad():
    got = model.load()(given['x'], given['t'], given['labels'])
worst = float((got - given['want']).abs().max())
assert worst < 1e-5 * max(1.0, float(given['want'].abs().max())), worst
print('same', worst)
)";

TEST_F(ExportTest, DiffusionNetworkComputesTheSameInPyTorch) {
  const std::string data = Data({.height = 16, .width = 16, .classes = 3, .train = 8, .test = 4});
  testing::Run(
      "diffusion", 1,
      Train(data, "diffusion",
            {"--max_steps", "3", "--batch_size", "4", "--channels", "8", "--mults", "1,2", "--blocks", "1",
             "--attention", "8", "--conditional", "--eval_images", "4", "--noise_schedule", "cosine"}),
      kSlow);
  const std::string out = folder_.File("export");
  testing::Run("diffusion", 1, {"--export", out, "--model_folder", folder_.File("diffusion")}, kSlow);
  models::UnetOptions options;
  options.channels = 8;
  options.mults = {1, 2};
  options.blocks = 1;
  options.attention = {8};
  options.image_size = 16;
  options.classes = 3;
  const auto net = std::make_shared<models::Unet>(0, options);
  ASSERT_TRUE(InitFrom(out + "/model.safetensors", *net).ok());
  net->eval();
  torch::NoGradGuard no_grad;
  const at::Tensor x = at::randn({2, 3, 16, 16}), t = at::tensor({3, 700}, at::kLong),
                   labels = at::tensor({1, 3}, at::kLong);
  const at::Tensor want = net->forward(x, t, labels);
  const DiffusionSchedule schedule(DiffusionSchedule::Kind::kCosine, 1000);
  const at::Tensor betas = at::empty({1000}, at::kDouble);
  for (int64_t time = 0; time < 1000; ++time) betas[time] = schedule.beta(time);
  ASSERT_TRUE(SaveTensors(folder_.File("given.safetensors"),
                          {{"x", x}, {"t", t}, {"labels", labels}, {"want", want}, {"betas", betas}}, {})
                  .ok());
  EXPECT_THAT(Python(kRunUnet, {out, folder_.File("given.safetensors")}), HasSubstr("same"));
}

}  // namespace
}  // namespace mtrun::trainers
