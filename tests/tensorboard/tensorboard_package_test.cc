// PyPI's tensorboard reads EventFile's output, even after a killed writer and damage. Runs if tools/setup
// --test-tools has installed it.
#include <filesystem>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorboard/event_file.h"
#include "tests/support/program.h"
#include "tests/tensorboard/read_package.h"

namespace mtrun::tensorboard {
namespace {

class Package : public testing::Test {
 protected:
  void SetUp() override {
    if (PackagePython().empty()) GTEST_SKIP() << "no tensorboard here: tools/setup --test-tools";
  }

  void Write(int64_t from, int64_t to, double value) const {
    auto file = EventFile::Create(folder_.File("tb"), from);
    ASSERT_TRUE(file.ok()) << file.status();
    if (from == 0) {
      file->Add(1, 0, Text{"settings", "lr: 0.1"});
      file->Add(1, 0, Picture{"preview", 1, 1, "not looked into"});
    }
    for (int64_t step = from; step < to; ++step)
      file->Add(1000.0 + static_cast<double>(step), step, std::vector<Scalar>{{"loss", value}, {"lr", 0.5}});
    ASSERT_TRUE(file->Flush().ok());
  }
  nlohmann::json Read(const std::string& how) const { return ReadByPackage(how, folder_.File("tb"), "loss"); }

  const support::TemporaryFolder folder_;
};

const nlohmann::json kOneCurve = {{0, 1.0}, {1, 1.0}, {2, 1.0}, {3, 2.0}, {4, 2.0}, {5, 2.0}, {6, 3.0}};

TEST_F(Package, ShowsOneCurveForARunKilledTwice) {
  Write(0, 5, 1);
  Write(3, 6, 2);  // from the checkpoint of step 3
  Write(6, 7, 3);  // another worker continues
  for (const char* how : {"accumulator", "slow", "fast"}) {
    const nlohmann::json seen = Read(how);
    EXPECT_EQ(seen["points"], kOneCurve) << how << seen;
  }
  const nlohmann::json all = Read("accumulator");
  EXPECT_EQ(all["texts"], (nlohmann::json{{0, "lr: 0.1"}}));
  EXPECT_EQ(all["images"], (nlohmann::json{{0, 1, 1, "not looked into"}}));
}

TEST_F(Package, ContinuesAfterTruncatedOrDamagedTails) {
  Write(0, 5, 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("tb")))
    std::filesystem::resize_file(entry.path(), entry.file_size() - 3);
  Write(3, 6, 2);
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("tb")))
    newest = std::max(newest, entry.path().string());
  support::WriteText(newest, support::ReadText(newest) + std::string(40, 'x'));
  Write(6, 7, 3);
  for (const char* how : {"accumulator", "slow", "fast"}) EXPECT_EQ(Read(how)["points"], kOneCurve) << how;
}

}  // namespace
}  // namespace mtrun::tensorboard
