// The programs learn on real images within a few steps. Each test states its line, what an untrained network
// scores and what was measured. Fashion-MNIST stands in for CIFAR-10, which a test cannot fetch; its images
// are grey, 28x28 padded to 32x32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/engine/support/trainer_program.h"

namespace mtrun::engine {
namespace {

using testing::Args;
using testing::Report;

class LearningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = testing::FashionSet(folder_.path(), 2000, 400);
    if (data_.empty()) GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  }
  /// Two workers train; the closing report.
  nlohmann::json Train(const std::string& program, const Args& more) {
    Args args = {"--data", data_, "--model_folder", folder_.File(program), "--augment=false"};
    args.insert(args.end(), more.begin(), more.end());
    testing::Run(program, 2, args, support::Seconds(800));
    return Report(folder_.File(program));
  }

  support::TemporaryFolder folder_;
  std::string data_;
};

/// Untrained 10 %; 25 steps of 32 images came to 60 %.
TEST_F(LearningTest, CnnB) {
  const auto report = Train("cnnB", {"--global_batch", "32", "--batch_size", "16", "--max_steps", "25",
                                     "--learning_rate", "0.002"});
  EXPECT_GE(report["test_accuracy"], 0.4);
}

/// Untrained 10 %; 60 steps of 64 images came to 32 %.
TEST_F(LearningTest, Vit) {
  const auto report = Train("vit", {"--global_batch", "64", "--batch_size", "32", "--max_steps", "60",
                                    "--learning_rate", "0.001", "--dropout", "0", "--drop_path", "0"});
  EXPECT_GE(report["test_accuracy"], 0.2);
}

}  // namespace
}  // namespace mtrun::engine
