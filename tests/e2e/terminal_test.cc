// The display of a job on terminals of two widths, in tmux.
#include <cstdlib>
#include <filesystem>

#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

constexpr int kSkipped = 77;  // terminal_driver.py

class TerminalTest : public LauncherTest {
 protected:
  void Look(int columns) {
    if (!HavePython()) GTEST_SKIP() << "no python3 here";
    Program driver(
        {"python3", support::TestFile("e2e/terminal_driver.py"), absl::StrCat(columns),
         support::BinaryFolder(), support::TestFile("testdata/cifar10/cifar10-2500.tar.xz"), folder_.path()},
        Environment());
    const auto status = driver.Wait(Seconds(300));
    if (status == kSkipped) GTEST_SKIP() << driver.Text();
    EXPECT_EQ(status, 0) << driver.Text();
    const char* const kept = getenv("MT_KEEP_PICTURES");
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (kept == nullptr || entry.path().extension() != ".txt") continue;
      std::filesystem::copy_file(entry.path(), kept / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
};

TEST_F(TerminalTest, LongEightyColumnsAreEnough) { Look(80); }

TEST_F(TerminalTest, LongOneHundredAndSixtyColumnsAreUsed) { Look(160); }

}  // namespace
}  // namespace mtrun::e2e
