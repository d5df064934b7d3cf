#include "base/start_thread.h"

#include "gtest/gtest.h"
#include "tests/support/no_threads.h"

namespace mtrun {
namespace {

TEST(StartThread, FailsIfNoThreadIsAvailable) {
  int runs = 0;
  std::thread thread;
  const auto run = [&] { ++runs; };
  {
    const support::NoThreads none;
    EXPECT_FALSE(StartThread(&thread, run));
    EXPECT_FALSE(thread.joinable());
  }
  ASSERT_TRUE(StartThread(&thread, run));
  thread.join();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace mtrun
