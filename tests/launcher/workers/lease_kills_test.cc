#include "launcher/workers/lease_kills.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(LeaseKills, EntryFromAnotherProcessIsTakenOnce) {
  const auto kills = LeaseKills::Make();
  ASSERT_TRUE(kills.ok()) << kills.status();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    kills->Add(71);
    kills->Add(72);
    kills->Add(71);  // again
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(kills->Take(70));
  EXPECT_TRUE(kills->Take(71));
  EXPECT_FALSE(kills->Take(71)) << "the pid may come again";
  EXPECT_TRUE(kills->Take(72));
}

TEST(LeaseKills, NewestEntriesAreKept) {
  const auto kills = LeaseKills::Make();
  ASSERT_TRUE(kills.ok()) << kills.status();
  for (pid_t pid = 1; pid <= static_cast<pid_t>(LeaseKills::kMost) + 1; ++pid) kills->Add(pid);
  EXPECT_FALSE(kills->Take(1));
  EXPECT_TRUE(kills->Take(2));
  kills->Forget();
  EXPECT_FALSE(kills->Take(3));
}

TEST(LeaseKills, EmptyOneKeepsNothing) {
  const LeaseKills none;
  none.Add(1);
  none.Forget();
  EXPECT_FALSE(none.Take(1));
}

}  // namespace
}  // namespace mtrun::launcher
