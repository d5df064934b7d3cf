#include "base/thread_limit.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>
#include <thread>

namespace mtrun {
namespace {

void Lack(int error) {
  ExplainLackOfThreads("prog");
  std::thread([error] { throw std::system_error(error, std::generic_category()); }).join();
}

TEST(ThreadLimitDeathTest, LackOfThreadsIsOneSentence) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(Lack(EAGAIN), testing::ExitedWithCode(1), "^prog: cannot start a thread: .*ulimit -u");
  EXPECT_DEATH(Lack(EIO), "");
}

}  // namespace
}  // namespace mtrun
