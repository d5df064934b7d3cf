#include "base/lease_page.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(LeasePage, NewPageHasNoDeadline) {
  const auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->deadline(), std::nullopt);
  EXPECT_FALSE(page->Over(0, BootNow()));
  EXPECT_FALSE(page->Over(0, Duration::max() - nanoseconds(1)));
}

TEST(LeasePage, EndsAtItsDeadline) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  page->Set(7, seconds(100));
  EXPECT_EQ(page->deadline(), seconds(100));
  EXPECT_FALSE(page->Over(7, seconds(100) - nanoseconds(1)));
  EXPECT_TRUE(page->Over(7, seconds(100)));
  page->Set(7, seconds(101));
  EXPECT_FALSE(page->Over(7, seconds(100)));
  page->Set(7, std::nullopt);
  EXPECT_FALSE(page->Over(7, seconds(101)));
}

/// A worker that ends the last step of its generation keeps that generation's lease unchanged.
TEST(LeasePage, EachGenerationHasItsOwnLease) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  page->Set(7, seconds(100));
  EXPECT_TRUE(page->Over(8, seconds(1))) << "another one's";
  page->Set(8, seconds(200));
  EXPECT_FALSE(page->Over(7, seconds(99)));
  EXPECT_TRUE(page->Over(7, seconds(100))) << "the next one's does not renew it";
  EXPECT_FALSE(page->Over(8, seconds(199)));
  EXPECT_FALSE(page->Over(0, seconds(199))) << "of who is in none it is the newest";
  EXPECT_EQ(page->deadline(), seconds(200));
  page->Set(8, seconds(201));
  EXPECT_FALSE(page->Over(7, seconds(99)));
  for (uint64_t next = 9; next < 15; ++next) page->Set(next, seconds(300));
  EXPECT_FALSE(page->Over(7, seconds(99))) << "others have come quickly, one after the other";
  page->Set(15, seconds(400));
  EXPECT_TRUE(page->Over(7, seconds(1))) << "eight generations later";
  EXPECT_FALSE(page->Over(8, seconds(200)));
  EXPECT_FALSE(page->Over(15, seconds(399)));
}

/// A worker that waits for the next generation may commit; one that ends a step of the last one may not.
TEST(LeasePage, DepartedWorkerHasItsOwnLease) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  page->Set(7, seconds(100));
  EXPECT_FALSE(page->OverOutside(7, seconds(99))) << "the generation's is still valid";
  EXPECT_TRUE(page->OverOutside(7, seconds(100)));
  page->SetOutside(7, seconds(200));
  EXPECT_FALSE(page->OverOutside(7, seconds(199)));
  EXPECT_TRUE(page->OverOutside(7, seconds(200)));
  EXPECT_TRUE(page->Over(7, seconds(100))) << "whoever is still in it has no other lease than before";
  EXPECT_TRUE(page->OverOutside(8, seconds(1))) << "a worker that was in another one";
  EXPECT_EQ(page->deadline(), seconds(100));
  page->SetOutside(8, seconds(300));
  EXPECT_TRUE(page->OverOutside(7, seconds(150)));
  const auto mapped = LeasePage::Map(page->fd());
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_FALSE(mapped->OverOutside(8, seconds(299)));
}

TEST(LeasePage, WorkerWithoutAGenerationHasOnlyTheNewestLease) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  page->Set(0, seconds(100));
  page->SetOutside(0, seconds(200));
  EXPECT_FALSE(page->OverOutside(0, seconds(99)));
  EXPECT_TRUE(page->OverOutside(0, seconds(100)));
}

/// A worker never takes the lease of one generation for that of another.
TEST(LeasePage, ConcurrentChangesAreReadConsistently) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  std::atomic<bool> done = false;
  // Odd generations end at 1 s, even ones at 1000 s.
  std::thread agent([&] {
    for (uint64_t generation = 1; generation < 200'000; ++generation)
      page->Set(generation, seconds(generation % 2 == 1 ? 1 : 1000));
    done = true;
  });
  int mistaken = 0;
  while (!done) {
    for (uint64_t generation = 1; generation < 200'000 && !done; generation += 2)
      mistaken += page->Over(generation, seconds(10)) ? 0 : 1;
  }
  agent.join();
  EXPECT_EQ(mistaken, 0);
  EXPECT_FALSE(page->Over(199'998, seconds(10)));
}

TEST(LeasePage, MappedPageShowsTheMakersValues) {
  auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  auto mapped = LeasePage::Map(page->fd());
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->fd(), -1);
  EXPECT_EQ(mapped->deadline(), std::nullopt);
  page->Set(1, seconds(7));
  EXPECT_EQ(mapped->deadline(), seconds(7));
  const LeasePage moved = *std::move(mapped);
  page->Set(1, seconds(8));
  *page = *LeasePage::Make();
  EXPECT_EQ(moved.deadline(), seconds(8)) << "the memory outlives its maker";
}

/// Checks that the child finds the descriptor, whose number it gets only from the environment.
TEST(LeasePage, StartedProgramInheritsTheDescriptor) {
  const auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  const std::string test = absl::StrCat("test -e /proc/self/fd/", page->fd());
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", test.c_str(), nullptr);
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LeasePage, ItsSizeIsSealed) {
  const auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(ftruncate(page->fd(), 0), -1);
  EXPECT_EQ(ftruncate(page->fd(), 1 << 20), -1);
}

// ---- invalid descriptors

/// Expects an error that names the descriptor and contains `why`.
void ExpectRefused(int fd, const std::string& why) {
  const auto page = LeasePage::Map(fd);
  EXPECT_EQ(page.status().code(), absl::StatusCode::kInvalidArgument) << page.status();
  EXPECT_THAT(std::string(page.status().message()),
              HasSubstr(absl::StrCat("descriptor ", fd, " is not a lease page: ")));
  EXPECT_THAT(std::string(page.status().message()), HasSubstr(why));
}

/// Returns a memory file of `bytes` that begins with `words`.
UniqueFd FileOf(off_t bytes, const std::array<uint64_t, 2>& words, bool sealed) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), bytes), 0);
  EXPECT_EQ(pwrite(fd.get(), words.data(), sizeof words, 0), static_cast<ssize_t>(sizeof words));
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, sealed ? F_SEAL_SHRINK : 0), 0);
  return fd;
}

/// Returns magic number and version.
std::array<uint64_t, 2> HeadOf(const LeasePage& page) {
  std::array<uint64_t, 2> words = {};
  EXPECT_EQ(pread(page.fd(), words.data(), sizeof words, 0), static_cast<ssize_t>(sizeof words));
  return words;
}

TEST(LeasePage, OtherDescriptorsAreRefused) {
  ExpectRefused(-1, "Bad file descriptor");
  UniqueFd closed(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = closed.get();
  closed.Reset();
  ExpectRefused(number, "Bad file descriptor");
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  ExpectRefused(null.get(), "0 bytes");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  ExpectRefused(reader.get(), "0 bytes");
}

TEST(LeasePage, SimilarFilesAreRefused) {
  const auto page = LeasePage::Make();
  ASSERT_TRUE(page.ok()) << page.status();
  const std::array<uint64_t, 2> head = HeadOf(*page);
  ASSERT_TRUE(LeasePage::Map(FileOf(4096, head, /*sealed=*/true).get()).ok());
  ExpectRefused(FileOf(4096, head, /*sealed=*/false).get(), "not sealed");
  ExpectRefused(FileOf(4095, head, /*sealed=*/true).get(), "4095 bytes");
  ExpectRefused(FileOf(4096, {head[0] + 1, head[1]}, /*sealed=*/true).get(), "its magic number is wrong");
  ExpectRefused(FileOf(4096, {head[0], 1}, /*sealed=*/true).get(), "version 1");
}

}  // namespace
}  // namespace mtrun
