// Exchanges weights with Python in both directions: Python reads our safetensors with
// load_state_dict(strict=True), and this code reads Python's safetensors and .pth. Skipped if there is no
// Python with PyTorch (tools/setup --peers).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "tests/support/peers_python.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/models/cnn_a.h"
#include "trainers/models/resnet.h"
#include "trainers/models/unet.h"
#include "trainers/models/vit.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

/// argv: action, parity folder, network, input file, output file.
constexpr char kScript[] = R"(
import sys, torch
from safetensors.torch import load_file, save_file
action, parity, network, source, target = sys.argv[1:]
sys.path.insert(0, parity)
torch.manual_seed(7)
torch.set_num_threads(1)
if network == "resnet18":
    from resnet18 import resnet18
    model = resnet18(classes=10 if action == "read" else 1000)
else:
    import models
    model = {"cnnA": models.CnnA, "cnnB": models.CnnB, "vit": models.ViT, "diffusion": lambda: models.UNet(channels=16)}[network]()
x = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
if action == "read":
    model.load_state_dict(load_file(source), strict=True)
else:
    for p in model.parameters():
        if p.dim() > 1: torch.nn.init.normal_(p, std=0.05)
    for n, b in model.named_buffers():
        if n.endswith("running_var"): b.uniform_(0.5, 1.5)
    (torch.save if source.endswith(".pth") else save_file)(model.state_dict(), source)
model.eval()
with torch.no_grad():
    y = model(x, torch.tensor([3, 700])) if network == "diffusion" else model(x)
save_file({"output": y}, target)
)";

class InterchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    python_ = support::PeersPython();
    if (python_.empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
    support::WriteText(folder_.File("script.py"), kScript);
  }
  /// Returns Python's output for the fixed input.
  at::Tensor Python(const std::string& action, const std::string& network, const std::string& file) {
    const std::string out = folder_.File("out.safetensors");
    support::Program program({python_, folder_.File("script.py"), action,
                              support::TestFile("testdata/parity"), network, file, out});
    EXPECT_EQ(program.Wait(), 0) << program.Text();
    const auto tensors = LoadTensors(out);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return tensors.ok() ? tensors->front().second : at::Tensor();
  }
  static at::Tensor Input() { return at::linspace(-1, 1, 2 * 3 * 32 * 32).reshape({2, 3, 32, 32}); }
  static void ExpectSame(const at::Tensor& got, const at::Tensor& want) {
    ASSERT_EQ(got.sizes(), want.sizes());
    EXPECT_LE((got - want).abs().max().item<double>(), 1e-4 * want.abs().max().item<double>());
  }
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  /// Checks both directions, with both formats on the way back.
  void ExpectBothWays(const std::string& network, torch::nn::Module& net, const Forward& forward) {
    torch::NoGradGuard no_grad;
    at::set_num_threads(1);
    net.eval();
    const std::string ours = folder_.File("ours.safetensors");
    ASSERT_TRUE(SaveTensors(ours, StateDict(net), {}).ok());
    ExpectSame(forward(Input()), Python("read", network, ours));
    for (const char* name : {"theirs.safetensors", "theirs.pth"}) {
      SCOPED_TRACE(name);
      const at::Tensor want = Python("write", network, folder_.File(name));
      const absl::Status status = InitFrom(folder_.File(name), net);
      ASSERT_TRUE(status.ok()) << status;
      ExpectSame(forward(Input()), want);
    }
  }

  support::TemporaryFolder folder_;
  std::string python_;
};

TEST_F(InterchangeTest, CnnA) {
  models::CnnA net(1);
  ExpectBothWays("cnnA", net, [&](const at::Tensor& x) { return net.forward(x); });
}

TEST_F(InterchangeTest, CnnB) {
  models::ResNet net(1, models::kResNet32);
  ExpectBothWays("cnnB", net, [&](const at::Tensor& x) { return net.forward(x); });
}

TEST_F(InterchangeTest, Vit) {
  models::VisionTransformer net(1);
  ExpectBothWays("vit", net, [&](const at::Tensor& x) { return net.forward(x); });
}

TEST_F(InterchangeTest, Diffusion) {
  models::UnetOptions options;
  options.channels = 16;
  models::Unet net(1, options);
  const at::Tensor t = at::tensor({3, 700}, at::kLong);
  ExpectBothWays("diffusion", net, [&](const at::Tensor& x) { return net.forward(x, t); });
}

/// A file like torchvision's resnet18-*.pth, with 1000 classes. Its body gives torchvision's features. The
/// last layer is kept if the number of classes is the same, and is initialised otherwise.
TEST_F(InterchangeTest, ResNet18FromPth) {
  torch::NoGradGuard no_grad;
  const std::string file = folder_.File("resnet18.pth");
  const at::Tensor want = Python("write", "resnet18", file);
  models::ResNet same(1, models::ResNet224(), 1000), fewer(1, models::ResNet224(), 10);
  const absl::Status status = InitFrom(file, same, "--weights", "fc.");
  ASSERT_TRUE(status.ok()) << status;
  same.eval();
  ExpectSame(same.forward(Input()), want);
  const at::Tensor fresh = fewer.named_parameters()["fc.weight"].clone();
  ASSERT_TRUE(InitFrom(file, fewer, "--weights", "fc.").ok());
  EXPECT_TRUE(fewer.named_parameters()["fc.weight"].equal(fresh));
  EXPECT_TRUE(fewer.named_parameters()["conv1.weight"].equal(same.named_parameters()["conv1.weight"]));
  EXPECT_THAT(std::string(InitFrom(file, fewer).message()), ::testing::HasSubstr("fc.weight is [1000, 512]"));
}

/// Runs the program on such a file: the body is frozen and the last layer learns.
TEST_F(InterchangeTest, ResNet18LearnsItsLastLayer) {
  const std::string file = folder_.File("resnet18.pth"), run = folder_.File("run");
  Python("write", "resnet18", file);
  // The classes are colours, because features averaged over the image do not show positions.
  const std::string data = testing::WritePackedSet(
      folder_.path(), "data", {.classes = 8, .train = 64, .test = 24},
      [](int64_t image, int64_t label, int y, int x, int channel) {
        const auto noise = SplitMix64(static_cast<uint64_t>(((image * 64 + y) * 64 + x) * 3 + channel)) % 50;
        return static_cast<uint8_t>((label >> channel & 1 ? 180 : 20) + noise);
      });
  testing::Run(
      "resnet18", 2,
      {"--data", data, "--model_folder", run, "--weights", file, "--image_size", "64", "--epochs", "12",
       "--batch_size", "4", "--accumulation_steps", "1", "--learning_rate", "0.01", "--warmup_steps", "0"});
  EXPECT_GE(testing::Report(run)["test_accuracy"], 0.8) << "12.5 % without learning";
  const auto weights = LoadTensors(run + "/model.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status();
  models::ResNet start(0, models::ResNet224(), 8);
  ASSERT_TRUE(InitFrom(file, start, "--weights", "fc.").ok());
  for (const auto& item : StateDict(start)) {
    const auto now =
        std::find_if(weights->begin(), weights->end(), [&](const auto& w) { return w.first == item.first; });
    ASSERT_NE(now, weights->end()) << item.first;
    EXPECT_EQ(now->second.equal(item.second), item.first.rfind("fc.", 0) != 0) << item.first;
  }
}

}  // namespace
}  // namespace mtrun::trainers
