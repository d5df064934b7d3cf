#include "trainers/run/files/run_links.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

class RunLinksTest : public ::testing::Test {
 protected:
  void MakeStep(int64_t step) { fs::create_directories(folder_.File("step_" + std::to_string(step))); }
  std::string Target(const char* link) const {
    std::error_code none;
    return fs::read_symlink(folder_.File(link), none).string();
  }

  support::TemporaryFolder folder_;
};

TEST_F(RunLinksTest, LinksPointToTheCheckpoints) {
  MakeStep(10);
  MakeStep(20);
  ASSERT_TRUE(UpdateLinks(folder_.path(), 20, 10).ok());
  EXPECT_EQ(Target("latest"), "step_20");
  EXPECT_EQ(Target("best"), "step_10");
  MakeStep(30);
  ASSERT_TRUE(UpdateLinks(folder_.path(), 30, 30).ok());
  EXPECT_EQ(Target("latest"), "step_30");
  EXPECT_EQ(Target("best"), "step_30");
}

TEST_F(RunLinksTest, BestLinkRequiresItsCheckpoint) {
  MakeStep(10);
  MakeStep(20);
  ASSERT_TRUE(UpdateLinks(folder_.path(), 10, 10).ok());
  ASSERT_TRUE(UpdateLinks(folder_.path(), 20, 15).ok()) << "step 15 was never saved";
  EXPECT_EQ(Target("best"), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder_.File("best"))));
  ASSERT_TRUE(UpdateLinks(folder_.path(), 20, std::nullopt).ok());
}

TEST_F(RunLinksTest, UsersFileIsKept) {
  MakeStep(10);
  std::ofstream(folder_.File("latest")) << "mine";
  ASSERT_TRUE(UpdateLinks(folder_.path(), 10, std::nullopt).ok());
  EXPECT_TRUE(fs::is_regular_file(folder_.File("latest")));
}

}  // namespace
}  // namespace mtrun::trainers
