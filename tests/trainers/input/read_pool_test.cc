#include "trainers/input/read_pool.h"

#include <atomic>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

ReadPool::Job Counting(std::atomic<int64_t>& sum, int64_t parts) {
  return {.parts = parts, .work = [&sum](int64_t part) {
            sum += part;
            return absl::OkStatus();
          }};
}

TEST(ReadPool, DoesEveryPartOnce) {
  for (const int threads : {1, 2, 7}) {
    ReadPool pool(threads);
    std::atomic<int64_t> sum = 0;
    std::vector<ReadPool::TicketPtr> tickets;
    for (int i = 0; i < 20; ++i) tickets.push_back(pool.Add(Counting(sum, 11)));
    for (const auto& ticket : tickets) EXPECT_TRUE(pool.Wait(ticket).ok());
    EXPECT_EQ(sum, 20 * 55);
    EXPECT_TRUE(pool.Wait(pool.Add(Counting(sum, 0))).ok()) << "nothing to do";
  }
}

/// Keeps one thread busy until it is released.
class Plug {
 public:
  explicit Plug(ReadPool& pool) {
    std::promise<void> begun;
    ticket_ = pool.Add({.parts = 1, .work = [&](int64_t) {
                          begun.set_value();
                          go_.get_future().wait();
                          return absl::OkStatus();
                        }});
    begun.get_future().wait();
  }
  void Pull() { go_.set_value(); }

 private:
  std::promise<void> go_;
  ReadPool::TicketPtr ticket_;
};

TEST(ReadPool, OldestJobRunsFirstUnlessAnotherIsUrgent) {
  ReadPool pool(1);
  Plug plug(pool);
  std::string done;
  const auto named = [&](char name) {
    return ReadPool::Job{.parts = 2, .work = [&done, name](int64_t) {
                           done += name;
                           return absl::OkStatus();
                         }};
  };
  const auto a = pool.Add(named('a')), b = pool.Add(named('b')), c = pool.Add(named('c'), /*first=*/true);
  plug.Pull();
  for (const auto& ticket : {a, b, c}) EXPECT_TRUE(pool.Wait(ticket).ok());
  EXPECT_EQ(done, "ccaabb");
}

TEST(ReadPool, PendingJobsAreAnnouncedBeforeTheyRun) {
  ReadPool pool(1);
  Plug plug(pool);
  std::string order;
  const auto named = [&](char name) {
    return ReadPool::Job{
        .parts = 1,
        .announce = [&order, name] { absl::StrAppend(&order, "(", std::string(1, name), ")"); },
        .work =
            [&order, name](int64_t) {
              order += name;
              return absl::OkStatus();
            }};
  };
  const auto a = pool.Add(named('a')), b = pool.Add(named('b'));
  plug.Pull();
  EXPECT_TRUE(pool.Wait(a).ok());
  EXPECT_TRUE(pool.Wait(b).ok());
  EXPECT_EQ(order, "(a)(b)ab");
}

TEST(ReadPool, FirstErrorInOrderOfPartsIsReturned) {
  ReadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    const auto ticket = pool.Add({.parts = 30, .work = [](int64_t part) {
                                    return part % 7 == 3 ? absl::DataLossError(absl::StrCat("part ", part))
                                                         : absl::OkStatus();
                                  }});
    EXPECT_EQ(pool.Wait(ticket), absl::DataLossError("part 3"));
  }
}

TEST(ReadPool, DroppedJobDoesNotStart) {
  ReadPool pool(1);
  Plug plug(pool);
  std::atomic<int64_t> sum = 0;
  const auto dropped = pool.Add(Counting(sum, 100)), kept = pool.Add(Counting(sum, 2));
  pool.Drop(dropped);
  plug.Pull();
  EXPECT_TRUE(absl::IsCancelled(pool.Wait(dropped)));
  EXPECT_TRUE(pool.Wait(kept).ok());
  EXPECT_EQ(sum, 1);
}

TEST(ReadPool, CanBeDestroyedWithPendingJobs) {
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 20; ++round) {
    ReadPool pool(2);
    for (int i = 0; i < 10; ++i) pool.Add(Counting(sum, 50));
  }
}

}  // namespace
}  // namespace mtrun::trainers
