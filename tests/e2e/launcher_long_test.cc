// Runs of the launcher that take minutes: tools/test --full.
#include "tests/e2e/restart_often.h"

namespace mtrun::e2e {
namespace {

TEST_F(LauncherTest, TenThousandSuccessiveWorkersLeaveNoProcess) {
  RestartAndLook(Mtrun(), Environment(), 1250, folder_);
}

}  // namespace
}  // namespace mtrun::e2e
