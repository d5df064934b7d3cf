// `mtrun.launch` of the Python package, which starts a real mtrun from a program without a file. It needs no PyTorch.
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

TEST_F(LauncherTest, PythonFunctionsAreLaunched) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  support::Overlay overlay = Environment();
  overlay["PYTHONDONTWRITEBYTECODE"] = "1";
  Program test({"python3", support::TestFile("python/launch_under_mtrun.py")}, overlay);
  EXPECT_EQ(test.Wait(support::Seconds(500)), 0) << test.Text();
}

}  // namespace
}  // namespace mtrun::e2e
