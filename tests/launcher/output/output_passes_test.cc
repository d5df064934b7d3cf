#include "launcher/output/output_passes.h"

#include <sys/types.h>

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/asleep.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kNow = Duration::zero();

TEST(OutputPasses, PassThatBeganBeforeARequestDoesNotCount) {
  OutputPasses passes;
  const OutputPasses::Pass early = passes.Begin();
  EXPECT_FALSE(early.requested);
  const uint64_t number = passes.Request({});
  passes.End(early);
  EXPECT_FALSE(passes.Await(number, kNow)) << "it may have missed output";
  const OutputPasses::Pass pass = passes.Begin();
  EXPECT_TRUE(pass.requested);
  EXPECT_FALSE(passes.Await(number, kNow));
  passes.End(pass);
  EXPECT_TRUE(passes.Await(number, kNow));
  EXPECT_FALSE(passes.Begin().requested);
}

TEST(OutputPasses, OnePassDoesTheWorkOfSeveralRequests) {
  OutputPasses passes;
  passes.Request({.close_up_to = 3, .keep = true});
  const uint64_t last = passes.Request({.close_up_to = 2});
  const OutputPasses::Pass pass = passes.Begin();
  EXPECT_EQ(pass.work.close_up_to, 3u);
  EXPECT_TRUE(pass.work.keep);
  EXPECT_FALSE(pass.work.stop);
  const uint64_t later = passes.Request({.stop = true});
  passes.End(pass);
  EXPECT_TRUE(passes.Await(last, kNow));
  EXPECT_FALSE(passes.Await(later, kNow));
  const OutputPasses::Pass next = passes.Begin();
  EXPECT_EQ(next.work.close_up_to, 0u) << "it is done";
  EXPECT_FALSE(next.work.keep);
  EXPECT_TRUE(next.work.stop);
}

TEST(OutputPasses, HurryEndsAWait) {
  OutputPasses passes;
  const uint64_t number = passes.Request({});
  uint64_t looks = 0;
  EXPECT_FALSE(passes.Await(
      number, std::chrono::hours(1), [&] { return ++looks; }, [&] { return looks > 1; }));
}

TEST(OutputPasses, EndOfAPassWakesItsWaiter) {
  OutputPasses passes;
  const uint64_t number = passes.Request({});
  std::atomic<pid_t> waiting = 0;
  std::atomic<bool> done = false;
  std::thread waiter([&] {
    waiting = support::ThreadId();
    EXPECT_TRUE(passes.Await(number, std::chrono::minutes(1)));
    done = true;
  });
  while (waiting == 0) std::this_thread::yield();
  EXPECT_TRUE(support::AwaitAsleep(waiting, [&] { return done.load(); }));
  const TimePoint before = MonotonicNow();
  passes.End(passes.Begin());
  waiter.join();
  EXPECT_LT(MonotonicNow() - before, std::chrono::seconds(30)) << "the end of its patience woke it";
}

}  // namespace
}  // namespace mtrun::launcher
