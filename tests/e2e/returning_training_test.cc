// Training runs whose nodes return with an old state, in memory or on a disk: the run never rewinds.
#include <signal.h>

#include <functional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

/// Returns `pid` and all its descendants.
std::vector<pid_t> TreeOf(pid_t pid) {
  std::vector<pid_t> tree = {pid};
  const std::string children = support::ReadText(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (const absl::string_view child : absl::StrSplit(children, ' ', absl::SkipEmpty())) {
    for (const pid_t descendant : TreeOf(std::stoi(std::string(child)))) tree.push_back(descendant);
  }
  return tree;
}

class ReturningTrainingTest : public TrainingRuns {
 protected:
  static constexpr int kEpochs = 40;

  std::unique_ptr<Program> StartService() const {
    auto service = std::make_unique<Program>(
        std::vector<std::string>{support::BinaryFolder() + "/mtrdzv", "--insecure", "--host", "127.0.0.1",
                                 "--port", absl::StrCat(port_)},
        Environment());
    EXPECT_TRUE(service->WaitForLine("serving")) << service->Text();
    return service;
  }
  /// Starts a node with one worker. `run`: its run folder.
  std::unique_ptr<Program> Start(const std::string& run) {
    return Train({"--nnodes", "1:2", "--nproc_per_node", "1", "--insecure", "--rdzv_endpoint",
                  absl::StrCat("127.0.0.1:", port_), "--rdzv_conf", "fence_timeout=3,last_call_timeout=0.5"},
                 run, kEpochs, {"--checkpoint_steps", "20"}, {{"MTRUN_PACE", "0.02"}});
  }
  static void SendToAll(const std::vector<pid_t>& pids, int signal) {
    for (const pid_t pid : pids) kill(pid, signal);
  }
  static bool WaitFor(const std::function<bool()>& holds) {
    for (const TimePoint end = MonotonicNow() + std::chrono::seconds(60); MonotonicNow() < end;) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  bool HasCheckpoint(const std::string& run, int step) const {
    return std::filesystem::exists(absl::StrCat(folder_.File(run), "/step_", step, "/DONE"));
  }
  /// Returns the step for which a worker's state was discarded, or -1.
  static int DiscardedFor(const std::string& text) {
    std::smatch found;
    static const std::regex line(": the run has continued without it, to step ([0-9]+)");
    return std::regex_search(text, found, line) ? std::stoi(found[1]) : -1;
  }

  const int port_ = support::FreePort();
};

TEST_F(ReturningTrainingTest, FrozenNodeContinuesFromTheCheckpointOfDeadNodes) {
  const auto service = StartService();
  const auto frozen = Start("run");
  const auto other = Start("run");
  ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("run", 40); })) << frozen->Text() << other->Text();
  const std::vector<pid_t> tree = TreeOf(frozen->pid());
  SendToAll(tree, SIGSTOP);
  ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("run", 200); })) << other->Text();
  SendToAll(TreeOf(other->pid()), SIGKILL);
  SendToAll(tree, SIGCONT);
  EXPECT_EQ(frozen->Wait(Seconds(120)), 0) << frozen->Text();
  EXPECT_GE(DiscardedFor(frozen->Text()), 200) << frozen->Text();
  ExpectUndisturbed("run", kEpochs);
}

TEST_F(ReturningTrainingTest, ReturningNodeBringsTheCheckpointOfItsOwnFolder) {
  const auto service = StartService();
  const auto frozen = Start("a"), other = Start("b");
  ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("a", 40) && HasCheckpoint("b", 40); })) << frozen->Text();
  const std::vector<pid_t> tree = TreeOf(frozen->pid());
  SendToAll(tree, SIGSTOP);
  ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("b", 200); })) << other->Text();
  SendToAll(TreeOf(other->pid()), SIGKILL);
  const auto again = Start("b");
  SendToAll(tree, SIGCONT);
  EXPECT_EQ(frozen->Wait(Seconds(120)), 0) << frozen->Text();
  EXPECT_EQ(again->Wait(Seconds(120)), 0) << again->Text();
  EXPECT_GE(DiscardedFor(frozen->Text()), 200) << frozen->Text() << again->Text();
  ExpectExactlyOnce({"a", "b"});
}

TEST_F(ReturningTrainingTest, ColdStartFromAnOlderDiskAdoptsANewerOne) {
  {
    const auto service = StartService();
    const auto older = Start("older"), newer = Start("newer");
    ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("older", 40) && HasCheckpoint("newer", 40); }))
        << older->Text();
    SendToAll(TreeOf(older->pid()), SIGKILL);
    ASSERT_TRUE(WaitFor([&] { return HasCheckpoint("newer", 200); })) << newer->Text();
    SendToAll(TreeOf(newer->pid()), SIGKILL);
  }
  const auto service = StartService();
  const auto older = Start("older");
  ASSERT_TRUE(older->WaitForLine("resumed from")) << older->Text();
  const auto newer = Start("newer");
  EXPECT_EQ(older->Wait(Seconds(120)), 0) << older->Text();
  EXPECT_EQ(newer->Wait(Seconds(120)), 0) << newer->Text();
  EXPECT_GE(DiscardedFor(older->Text()), 200) << older->Text();
  ExpectExactlyOnce({"older", "newer"});
}

}  // namespace
}  // namespace mtrun::e2e
