// A run whose workers fail repeatedly, and the resources that its agent holds.
#pragma once

#include <filesystem>
#include <string>

#include "tests/e2e/launcher.h"

namespace mtrun::e2e {

inline pid_t ChildOf(pid_t parent) {
  return std::stoi(support::ReadText(absl::StrCat("/proc/", parent, "/task/", parent, "/children")));
}

inline size_t Entries(const std::string& folder) {
  size_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator item(folder, error), end; !error && item != end;
       item.increment(error))
    ++count;
  return count;
}

/// Threads and descriptors of the agent of a running mtrun.
struct Holdings {
  size_t threads = 0, descriptors = 0;
};
inline Holdings HoldingsOf(const Program& mtrun) {
  const std::string agent = absl::StrCat("/proc/", ChildOf(ChildOf(mtrun.pid())));
  return {Entries(agent + "/task"), Entries(agent + "/fd")};
}

/// Runs generations of eight workers that are killed; those of the second and of the last wait to be
/// inspected. Killed, because failures of their own would make mtrun pause ever longer between the
/// generations.
inline void RestartAndLook(const std::string& mtrun_path, support::Overlay overlay, int attempts,
                           const support::TemporaryFolder& folder) {
  const std::string temporary = folder.File("tmp");
  std::filesystem::create_directory(temporary);
  overlay["TMPDIR"] = overlay["XDG_STATE_HOME"] = temporary;
  support::WriteText(
      folder.File("run.sh"),
      absl::StrCat("#!/bin/sh\nn=$TORCHELASTIC_RESTART_COUNT\n"
                   "look() { echo attempt $n is up; while [ ! -e ",
                   folder.path(), "/$1 ]; do sleep 0.05; done; }\n",
                   "[ $n = 1 ] && look go1\n[ $n = ", attempts, " ] && look go2 && exit 0\nkill -KILL $$\n"),
      true);
  Program mtrun({mtrun_path, "--standalone", "--nproc_per_node=8", absl::StrCat("--max_restarts=", attempts),
                 "--log_dir=/dev/null", folder.File("run.sh")},
                overlay);
  ASSERT_TRUE(mtrun.WaitForLines("attempt 1 is up", 8)) << mtrun.Text();
  const Holdings before = HoldingsOf(mtrun);
  const size_t files = Entries(temporary);
  support::WriteText(folder.File("go1"), "");
  ASSERT_TRUE(mtrun.WaitForLines(absl::StrCat("attempt ", attempts, " is up"), 8, Seconds(800)))
      << mtrun.Text().substr(0, 3000);
  const Holdings after = HoldingsOf(mtrun);
  // gRPC's thread pool varies a little; a leak grows with the attempts.
  EXPECT_LT(after.threads, before.threads + 16);
  EXPECT_LT(after.descriptors, before.descriptors + 16);
  EXPECT_EQ(Entries(temporary), files);
  support::WriteText(folder.File("go2"), "");
  EXPECT_EQ(mtrun.Wait(), 0);
  EXPECT_EQ(Entries(temporary), 0u);
}

}  // namespace mtrun::e2e
