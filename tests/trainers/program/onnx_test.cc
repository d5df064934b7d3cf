// Exports networks with --onnx, and runs PyPI's onnxruntime on the result.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/peers_python.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using testing::Args;
using ::testing::HasSubstr;
using testing::LearnablePixel;

constexpr support::Seconds kPatience{180};

/// Compares the file in the exported folder argv[1] with the network, apart from what --onnx has compared.
constexpr char kCompare[] = R"(
import os, sys
os.chdir(sys.argv[1])
sys.path.insert(0, os.getcwd())
import model, onnxruntime, torch
session = onnxruntime.InferenceSession('model.onnx', providers=['CPUExecutionProvider'])
network, worst = model.load().float(), 0
torch.manual_seed(1)
for count in (1, 3):
    given = [torch.randn(like.shape) if like.is_floating_point() else torch.randint(0, 4, like.shape)
             for like in model.example(count)]
    with torch.no_grad():
        want = network(*given)
    got, = session.run(None, {name: one.numpy() for name, one in zip(model.INPUTS, given)})
    assert got.shape == tuple(want.shape), (got.shape, want.shape)
    worst = max(worst, float((torch.from_numpy(got) - want).abs().max() / want.abs().max().clamp(min=1)))
assert worst < 1e-5, worst
print('same', worst)
)";

class LongOnnxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string python = support::PeersPython();
    if (python.empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
    support::Program probe({python, "-c", "import onnx, onnxruntime"});
    if (probe.Wait() != 0) GTEST_SKIP() << "no onnxruntime here: tools/setup --peers";
  }

  /// Trains for two steps, exports, and compares the results.
  void ExpectTheSame(const std::string& program, const std::string& data, const Args& more = {}) const {
    SCOPED_TRACE(absl::StrCat(program, " ", absl::StrJoin(more, " ")));
    const support::TemporaryFolder folder;
    const std::string run = folder.File("run"), out = folder.File("exported");
    Args args = {"--data", data, "--model_folder", run, "--max_steps", "2"};
    args.insert(args.end(), {"--batch_size", "4", "--eval_images", "4"});
    args.insert(args.end(), more.begin(), more.end());
    testing::Run(program, 1, args, kPatience);
    support::Overlay with_python = testing::NoLauncher();
    with_python["PYTHON_EXEC"] = support::PeersPython();
    const auto exported =
        testing::Start(program, {"--export", out, "--weights_of", run, "--onnx"}, with_python);
    EXPECT_EQ(exported->Wait(kPatience), 0) << exported->Text();
    EXPECT_THAT(exported->Text(), HasSubstr("model.onnx is written; onnxruntime computes the same to"));
    support::Program python({support::PeersPython(), "-c", kCompare, out}, testing::NoLauncher());
    EXPECT_EQ(python.Wait(kPatience), 0) << python.Text();
    EXPECT_TRUE(python.WaitForLine("same", support::Seconds(0))) << python.Text();
  }

  const support::TemporaryFolder folder_;
};

TEST_F(LongOnnxTest, ClassifiersComputeTheSame) {
  const std::string data = testing::WritePackedSet(
      folder_.path(), "data", {.height = 28, .width = 32, .train = 16, .test = 8}, LearnablePixel);
  for (const char* program : {"cnnA", "cnnB", "vit"}) ExpectTheSame(program, data);
  ExpectTheSame("resnet18", data, {"--image_size", "64", "--normalize", "imagenet"});
}

/// The message names the Python and what it lacks.
TEST_F(LongOnnxTest, PythonWithoutTheModulesIsNamed) {
  const std::string data =
      testing::WritePackedSet(folder_.path(), "data", {.train = 16, .test = 8}, LearnablePixel);
  const std::string run = folder_.File("run");
  testing::Run("cnnA", 1, {"--data", data, "--model_folder", run, "--max_steps", "2"}, kPatience);
  support::Overlay with_python = testing::NoLauncher();
  with_python["PYTHON_EXEC"] = "/bin/false";
  const auto failed =
      testing::Start("cnnA", {"--export", folder_.File("out"), "--weights_of", run, "--onnx"}, with_python);
  EXPECT_NE(failed->Wait(kPatience), 0);
  EXPECT_THAT(failed->Text(),
              HasSubstr("model.py --onnx ended with 1; it needs PyTorch, safetensors and onnx"));
}

TEST_F(LongOnnxTest, Float64WeightsAreAccepted) {
  const std::string data =
      testing::WritePackedSet(folder_.path(), "data", {.train = 16, .test = 8}, LearnablePixel);
  ExpectTheSame("cnnA", data, {"--precision", "float64"});
}

TEST_F(LongOnnxTest, DiffusionNetworkComputesTheSame) {
  const std::string data = testing::WritePackedSet(
      folder_.path(), "data", {.height = 16, .width = 16, .classes = 3, .train = 8, .test = 4},
      LearnablePixel);
  Args network = {"--channels", "8", "--mults", "1,2", "--blocks", "1", "--attention", "8"};
  ExpectTheSame("diffusion", data, network);
  network.emplace_back("--conditional");
  ExpectTheSame("diffusion", data, network);
}

}  // namespace
}  // namespace mtrun::trainers
