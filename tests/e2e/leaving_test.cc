// Nodes that are drained, whatever their workers wait for.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/training.h"
#include "tests/support/small_disk.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LeavingTest : public TrainingRuns {
 protected:
  const int port_ = support::FreePort();

  /// Returns the trainer's command without mtrun.
  std::vector<std::string> ByHand(const std::string& run, int epochs = 1,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = Trainer(run, epochs, more);
    words.erase(words.begin());  // --trainer
    words[0] = absl::StrCat(support::BinaryFolder(), "/", words[0]);
    return words;
  }

  /// Waits until a worker waits for the others in the group that it joins. `sockets`: listening ones,
  /// including mtrun's presence port.
  bool WaitUntilAWorkerListens(int sockets) const {
    const auto deadline = std::chrono::steady_clock::now() + support::kPatience;
    while (std::ranges::none_of(Workers(),
                                [&](pid_t pid) { return support::ListeningSockets(pid) >= sockets; })) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(Seconds(0.02));
    }
    return true;
  }
};

/// Two nodes with one run folder, whose disk is full. The drained node leaves at once, whether it writes the
/// run's files or waits for the writer, and the other continues when there is space.
class LeavingAFullDiskTest : public LeavingTest, public testing::WithParamInterface<bool> {};

TEST_P(LeavingAFullDiskTest, DoesNotDisturbTheOtherNodes) {
  constexpr int kEpochs = 40;
  const auto disk = support::SmallDisk::Make(folder_.File("disk"), 4 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  Program service({support::BinaryFolder() + "/mtrdzv", "--insecure", "--host", "127.0.0.1", "--port",
                   absl::StrCat(port_)},
                  Environment());
  ASSERT_TRUE(service.WaitForLine("serving")) << service.Text();
  const auto start = [&](int node) {
    return Train(
        {"--nnodes", "1:2", "--insecure", "--rdzv_endpoint", absl::StrCat("127.0.0.1:", port_), "--node_rank",
         absl::StrCat(node), "--shutdown_timeout", "12", "--rdzv_conf", "last_call_timeout=20"},
        "disk/run", kEpochs, {"--checkpoint_steps", "1000"}, {{"MTRUN_PACE", "0.02"}});
  };
  const auto writer = start(0), other = start(1);
  ASSERT_TRUE(writer->WaitForLine("epoch 2/")) << writer->Text() << other->Text();
  (*disk)->Fill();
  ASSERT_TRUE(writer->WaitForLine("the run is paused until there is free disk space")) << writer->Text();
  Program& leaves = GetParam() ? *writer : *other;
  Program& stays = GetParam() ? *other : *writer;
  leaves.Signal(SIGTERM);
  EXPECT_EQ(leaves.Wait(Seconds(20)), 0) << leaves.Text() << "\n-- the other:\n" << stays.Text();
  (*disk)->Free();
  EXPECT_EQ(stays.Wait(Seconds(120)), 0) << stays.Text();
  ExpectUndisturbed("disk/run", kEpochs);
}

INSTANTIATE_TEST_SUITE_P(Node, LeavingAFullDiskTest, testing::Bool(),
                         [](const auto& writes) { return writes.param ? "ThatWrites" : "ThatDoesNotWrite"; });

TEST_F(LeavingTest, WorkerWaitingForALostServiceIsNotHung) {
  const std::vector<std::string> meeting = {"--nnodes", "1:2", "--rdzv_endpoint", endpoint_};
  const auto host = Train(Words(meeting, {"--node_rank", "0"}), "run", 100000);
  ASSERT_TRUE(host->WaitForLine("epoch 1/100000")) << host->Text();
  const auto other = Train(Words(meeting, {"--node_rank", "1", "--hang_notice", "10", "--hang_timeout", "12",
                                           "--rdzv_conf", "is_host=0"}),  // it would take the host's place
                           "run", 100000);
  ASSERT_TRUE(other->WaitForLine("world size 2")) << host->Text() << other->Text();
  ASSERT_TRUE(host->WaitForLine("continuing with 2 workers")) << host->Text();
  host->Signal(SIGKILL);
  ASSERT_TRUE(other->WaitForLine("lost the rendezvous service")) << other->Text();
  // One line every five seconds without a service.
  ASSERT_TRUE(other->WaitForLines("still cannot reach the rendezvous service", 3)) << other->Text();
  EXPECT_THAT(other->Text(), Not(HasSubstr(": no progress for ")));
  other->Signal(SIGTERM);
  EXPECT_EQ(other->Wait(), 143) << other->Text();
  EXPECT_THAT(other->Text(), HasSubstr("the same command continues from"));
}

/// The other node's worker never connects, and no service reports that the generation is over.
TEST_F(LeavingTest, ConnectingWorkerCanLeaveWhileTheServiceIsLost) {
  const std::string script = Script("train.sh", absl::StrCat("[ $STAY ] && echo here && sleep 1000\nexec ",
                                                             absl::StrJoin(ByHand("run"), " "), "\n"));
  const std::vector<std::string> meeting = {"--nnodes", "2", "--rdzv_endpoint", endpoint_};
  support::Overlay stays = Environment();
  stays["STAY"] = "1";
  Program host(Command(Words(meeting, {"--node_rank", "0", script})), stays);
  Program other(Command(Words(meeting, {"--node_rank", "1", "--rdzv_conf", "is_host=0", script})),
                Environment());
  ASSERT_TRUE(host.WaitForLine("here")) << host.Text() << other.Text();
  ASSERT_TRUE(WaitUntilAWorkerListens(2)) << other.Text();
  host.Signal(SIGKILL);
  ASSERT_TRUE(other.WaitForLine("lost the rendezvous service")) << other.Text();
  other.Signal(SIGTERM);
  EXPECT_EQ(other.Wait(), 143) << other.Text();
  EXPECT_THAT(other.Text(),
              AllOf(HasSubstr("this worker had not begun to train"), Not(HasSubstr("have not left within"))));
}

TEST_F(LeavingTest, WorkerWaitingForMissingWorkersCanLeave) {
  support::Overlay environment = Environment();
  for (const auto& [name, value] :
       support::Overlay{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}})
    environment[name] = value;
  environment["MASTER_PORT"] = absl::StrCat(support::FreePort());
  Program alone(ByHand("run"), environment);
  ASSERT_TRUE(WaitUntilAWorkerListens(1)) << alone.Text();
  alone.Signal(SIGTERM);
  EXPECT_EQ(alone.Wait(), 143) << alone.Text();
  EXPECT_THAT(alone.Text(), HasSubstr("received SIGTERM: this worker had not begun to train"));
}

/// Signals arrive one after the other: in some step only one worker votes to leave, or only one is signalled.
TEST_F(LeavingTest, OtherLaunchersWorkersStopTogetherWhicheverIsSignalledFirst) {
  const std::string first = "rank=0 step=12 at=allreduce do=leave",
                    second = "rank=1 step=12 at=allreduce do=leave",
                    first_later = "rank=0 step=13 at=allreduce do=leave";
  struct Case {
    std::string signals;
    std::vector<bool> told;  // by rank
  };
  for (const Case& c : {Case{first, {true, false}}, Case{second, {false, true}},
                        Case{absl::StrCat(second, ";", first_later), {true, true}}}) {
    SCOPED_TRACE(c.signals);
    const std::string run = absl::StrCat("run", c.told[0], c.told[1]);
    support::Overlay environment = Environment();
    environment["WORLD_SIZE"] = "2";
    environment["MASTER_ADDR"] = "127.0.0.1";
    environment["MASTER_PORT"] = absl::StrCat(support::FreePort());
    environment["MTRUN_FAULTS"] = c.signals;
    std::vector<std::unique_ptr<Program>> workers;
    for (const char* rank : {"0", "1"}) {
      environment["RANK"] = rank;
      workers.push_back(
          std::make_unique<Program>(ByHand(run, 100000, {"--checkpoint_epochs", "0"}), environment));
    }
    for (size_t rank = 0; rank < workers.size(); ++rank) {
      const char* const why = c.told[rank] ? "received SIGTERM" : "another worker was asked to leave";
      EXPECT_EQ(workers[rank]->Wait(), 143) << workers[rank]->Text();
      EXPECT_THAT(workers[rank]->Text(),
                  HasSubstr(absl::StrCat(why, ": stopped at step 14 of 900000; the same command continues")));
    }
    EXPECT_EQ(Losses(run).size(), 14u);
    EXPECT_TRUE(std::filesystem::exists(folder_.File(run) + "/step_14/DONE"));
  }
}

TEST_F(LeavingTest, PreemptFileDrainsTheNode) {
  const std::string file = folder_.File("preempt");
  const auto training =
      Train({"--standalone", "--nproc_per_node", "2", "--preempt_file", file}, "run", 100000);
  ASSERT_TRUE(training->WaitForLine("epoch 2/100000")) << training->Text();
  support::WriteText(file, "");
  EXPECT_EQ(training->Wait(), 143) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("has appeared"), HasSubstr("the same command continues from")));
  const auto again = Train({"--standalone", "--preempt_file", file}, "run", 100000);
  EXPECT_EQ(again->Wait(), 1);
  EXPECT_THAT(again->Text(), HasSubstr("exists already, so this node would leave at once; remove it"));
}

/// An epoch has two steps, and its evaluation takes longer than the workers' shutdown timeout.
class LeavingAnEvaluationTest : public LeavingTest {
 protected:
  static inline const std::vector<std::string> kGrace = {"--shutdown_timeout", "12"};
  static inline const support::Overlay kSlow = {{"MTRUN_PACE", "1"}};  // s per step, and per batch of 250

  void SetUp() override {
    data_ = trainers::testing::WritePackedSet(folder_.path(), "data", {.train = 24, .test = 40 * 250},
                                              trainers::testing::LearnablePixel);
    precision_.clear();
  }
  std::unique_ptr<Program> TwoEpochs(const std::vector<std::string>& args, const std::string& run,
                                     const support::Overlay& overlay = {}) {
    return Train(args, run, 2, {"--log_every", "1"}, overlay);
  }
  /// From then on the first epoch is evaluated; a vote to leave would come with the next step.
  static bool WaitUntilItEvaluates(Program& node) { return node.WaitForLine("step 2/4").has_value(); }

  /// Returns test losses by the number of steps before them.
  std::map<int64_t, double> TestLosses(const std::string& run) const {
    std::map<int64_t, double> losses;
    for (const absl::string_view line :
         absl::StrSplit(support::ReadText(folder_.File(run) + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(std::string(line));
      if (json.contains("eval")) losses[json["steps"]] = json["test_loss"];
    }
    return losses;
  }
};

TEST_F(LeavingAnEvaluationTest, EvaluationIsAbandonedAndTheResumedRunEvaluatesFirst) {
  const std::vector<std::string> two = {"--standalone", "--nproc_per_node", "2"};
  const auto stopped = TwoEpochs(Words(two, kGrace), "run", kSlow);
  ASSERT_TRUE(WaitUntilItEvaluates(*stopped)) << stopped->Text();
  stopped->Signal(SIGTERM);
  EXPECT_EQ(stopped->Wait(), 143) << stopped->Text();
  EXPECT_THAT(stopped->Text(),
              AllOf(HasSubstr("the evaluation of step 2 is given up"), HasSubstr("stopped at step 2 of 4"),
                    Not(HasSubstr("have not left within"))));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("run") + "/step_2/DONE"));
  EXPECT_TRUE(TestLosses("run").empty());

  const auto resumed = TwoEpochs(two, "run"), undisturbed = TwoEpochs(two, "undisturbed");
  EXPECT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_EQ(undisturbed->Wait(), 0) << undisturbed->Text();
  EXPECT_EQ(Losses("run"), Losses("undisturbed"));
  EXPECT_EQ(TestLosses("run"), TestLosses("undisturbed"));
  EXPECT_EQ(TestLosses("run").size(), 2u);
  ExpectExactlyOnce({"run"});
}

TEST_F(LeavingAnEvaluationTest, RemainingNodeRegroupsAndEvaluatesAgain) {
  const std::vector<std::string> meeting = {"--nnodes", "1:2",         "--rdzv_endpoint",
                                            endpoint_,  "--rdzv_conf", "last_call_timeout=60"};
  const auto stays = TwoEpochs(Words(meeting, {"--node_rank", "0"}), "run");
  const auto goes = TwoEpochs(Words(Words(meeting, kGrace), {"--node_rank", "1"}), "run", kSlow);
  ASSERT_TRUE(WaitUntilItEvaluates(*stays)) << stays->Text() << goes->Text();
  goes->Signal(SIGTERM);
  EXPECT_TRUE(goes->Wait()) << goes->Text();
  EXPECT_THAT(goes->Text(), AllOf(HasSubstr("the evaluation of step 2 is given up"),
                                  Not(HasSubstr("have not left within"))));
  EXPECT_EQ(stays->Wait(), 0) << stays->Text();
  EXPECT_THAT(stays->Text(), HasSubstr("continuing with 1 worker at step 2"));
  EXPECT_EQ(TestLosses("run").size(), 2u);
  ExpectExactlyOnce({"run"});
}

}  // namespace
}  // namespace mtrun::e2e
