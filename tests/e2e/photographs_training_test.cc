// resnet18 learns from scratch to classify photographs by crops of all sizes. tools/test --full.
#include <iostream>

#include "tests/datasets/files.h"
#include "tests/datasets/photographs.h"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

class PhotographsTrainingTest : public TrainingRuns {
 protected:
  static constexpr size_t kClasses = 10;

  void SetUp() override {
    if (datasets::test::PhotographFiles().empty())
      GTEST_SKIP() << "no photographs here: tools/setup --test-tools";
    size_t number = 0;
    for (const auto& part : datasets::test::CutPhotographs(kClasses, 44, 60, 300)) {
      const std::string split = ++number % 11 == 0 ? "test" : "train";
      datasets::test::Write(folder_.File(absl::StrCat("photographs/", split, "/", part.photograph, "/",
                                                      number, part.extension)),
                            part.bytes);
    }
    data_ = folder_.File("packed");
    Program import({support::BinaryFolder() + "/mtdata", "import", folder_.File("photographs"), data_,
                    "--store", "encoded"},
                   Environment());
    ASSERT_EQ(import.Wait(), 0) << import.Text();
  }

  /// Returns the mean loss of steps `first` to `last`, counted from 1.
  double MeanLoss(int64_t first, int64_t last) const {
    double sum = 0;
    const auto losses = Losses("run");
    for (int64_t step = first; step <= last; ++step) sum += losses.at(step - 1);
    return sum / static_cast<double>(last - first + 1);
  }
};

/// The loss of guessing is ln(10) = 2.30.
TEST_F(PhotographsTrainingTest, ResNet18LearnsThemFromScratch) {
  Program training({support::BinaryFolder() + "/resnet18",
                    "--data",
                    data_,
                    "--model_folder",
                    folder_.File("run"),
                    "--train",
                    "all",
                    "--image_size",
                    "64",
                    "--batch_size",
                    "16",
                    "--global_batch",
                    "16",
                    "--epochs",
                    "100",
                    "--max_steps",
                    "300",
                    "--random_resized_crop",
                    "--augment",
                    "--threads",
                    "2"},
                   Environment());
  ASSERT_EQ(training.Wait(Seconds(1500)), 0) << training.Text();
  const double line = 0.8 * std::log(kClasses), begun = MeanLoss(1, 5), learnt = MeanLoss(250, 300);
  std::cout << "mean training loss: steps 1 to 5 " << begun << ", 250 to 300 " << learnt << ", line " << line
            << std::endl;
  EXPECT_LE(learnt, line);
  EXPECT_GT(begun, line) << "the line is above what an untrained network has";
}

}  // namespace
}  // namespace mtrun::e2e
