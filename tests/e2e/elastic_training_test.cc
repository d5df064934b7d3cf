// Elastic training: if any process dies, leaves or joins, the run still equals the undisturbed one. float64
// makes the losses comparable, and the ledger proves that every sample was consumed exactly once.
#include <signal.h>

#include <cmath>
#include <set>

#include "nlohmann/json.hpp"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct FaultCase {
  int world;
  std::string fault;
  int deaths = 1;
};
void PrintTo(const FaultCase& value, std::ostream* out) {
  *out << value.world << " workers, " << value.fault;
}

class ElasticTrainingTest : public TrainingRuns {
 protected:
  std::unique_ptr<Program> TrainNode(int rank, const std::string& run, int epochs,
                                     const std::vector<std::string>& more = {},
                                     const support::Overlay& overlay = {},
                                     const std::string& nnodes = "1:2") {
    return Train({"--nnodes", nnodes, "--nproc_per_node", "1", "--rdzv_endpoint", endpoint_, "--rdzv_conf",
                  "last_call_timeout=0.1", "--node_rank", absl::StrCat(rank)},
                 run, epochs, more, overlay);
  }

  /// Returns the number of started workers in the event logs of all agents.
  static int WorkersStarted(const std::string& events) {
    int started = 0;
    for (const absl::string_view line : absl::StrSplit(support::ReadText(events), '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(std::string(line));
      if (json["event"] == "workers_started") started += static_cast<int>(json["local_ranks"].size());
    }
    return started;
  }
};

class FaultPlanTest : public ElasticTrainingTest, public testing::WithParamInterface<FaultCase> {
 protected:
  static constexpr int kEpochs = 3;
};

TEST_P(FaultPlanTest, RunEqualsTheUndisturbedOne) {
  const FaultCase fault = GetParam();
  const std::string events = folder_.File("events.jsonl");
  const bool stops = fault.fault.find("do=stop") != std::string::npos;
  std::vector<std::string> args = {"--standalone", "--nproc_per_node", absl::StrCat(fault.world),
                                   "--event_log", events};
  // Enough time for a worker's start on a busy machine, which is watched too.
  if (stops) args = Words(args, {"--hang_timeout", "12", "--hang_notice", "4"});
  const auto training =
      Train(args, "faulty", kEpochs, {"--checkpoint_steps", "4"}, {{"MTRUN_FAULTS", fault.fault}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(), AllOf(HasSubstr("fault fired: "), HasSubstr("continuing with "),
                                      Not(HasSubstr("resumed from"))))
      << "survivors hold the run's state, no checkpoint is read";
  EXPECT_LE(WorkersStarted(events), fault.world + fault.deaths) << "a survivor lost its process";
  if (stops) {
    EXPECT_THAT(training->Text(), AllOf(HasSubstr(": no progress for "), HasSubstr("is stopped by a signal"),
                                        HasSubstr("(--hang_timeout): killing it")));
  }
  ExpectUndisturbed("faulty", kEpochs);
}

INSTANTIATE_TEST_SUITE_P(
    Places, FaultPlanTest,
    testing::Values(
        FaultCase{2, "rank=1 step=5 at=forward do=kill"}, FaultCase{2, "rank=0 step=5 at=backward do=kill"},
        FaultCase{3, "rank=1 step=8 at=allreduce do=kill"}, FaultCase{3, "rank=0 step=13 at=apply do=kill"},
        FaultCase{2, "rank=0 step=12 at=save do=kill"}, FaultCase{3, "rank=2 step=18 at=eval do=kill"},
        FaultCase{4, "rank=0 step=0 at=forward do=exit"}, FaultCase{2, "rank=1 step=10 at=backward do=leave"},
        FaultCase{3, "rank=0 step=11 at=forward do=leave"}, FaultCase{2, "rank=0 step=5 at=apply do=stop"},
        FaultCase{2, "rank=1 step=6 at=backward do=throw"}, FaultCase{2, "rank=0 step=9 at=apply do=throw"},
        FaultCase{3, "rank=1 step=7 at=read do=throw"},
        FaultCase{4, "rank=0 step=5 at=backward do=kill; rank=3 step=5 at=forward do=kill", 2}));

/// Returns every place x every action x 2, 3, 4 workers.
std::vector<FaultCase> AllFaults() {
  std::vector<FaultCase> cases;
  const std::pair<const char*, int> places[] = {{"forward", 5}, {"backward", 10}, {"allreduce", 8},
                                                {"read", 9},    {"apply", 13},    {"save", 12},
                                                {"eval", 18}};
  int rank = 0;
  for (const auto& [place, step] : places) {
    for (const char* way : {"kill", "stop", "leave", "exit", "throw"}) {
      for (int world = 2; world <= 4; ++world) {
        // Only the writer, rank 0 of a new run, saves.
        const int who = std::string(place) == "save" ? 0 : rank++ % world;
        cases.push_back({world, absl::StrCat("rank=", who, " step=", step, " at=", place, " do=", way)});
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, FaultPlanTest, testing::ValuesIn(AllFaults()));

/// Each process throws the same error as the first: the job ends with that reason.
TEST_F(ElasticTrainingTest, WorkerThatCannotSetUpItsTrainingReportsWhy) {
  const auto training = Train({"--standalone", "--nproc_per_node", "2"}, "setup", 1, {},
                              {{"MTRUN_FAULTS", "rank=1 step=0 at=setup do=throw"}});
  EXPECT_EQ(training->Wait(), 1);
  EXPECT_THAT(training->Text(), AllOf(HasSubstr("cnnA FAILED"), HasSubstr("exited during start-up"),
                                      HasSubstr("traceback : setting up the training: injected fault"),
                                      Not(HasSubstr("terminate called"))));
}

TEST_F(ElasticTrainingTest, SurvivorsKeepTheirProcessAndADrainedRunResumesElsewhere) {
  const auto training = TrainHere(3, "long", 100000, {"--log_every", "50"});
  ASSERT_TRUE(training->WaitForLine("epoch 3/100000")) << training->Text();
  const std::set<pid_t> before = Workers();
  ASSERT_EQ(before.size(), 3u);
  kill(*before.begin(), SIGKILL);
  ASSERT_TRUE(training->WaitForLine("continuing with 3 workers")) << training->Text();
  const std::set<pid_t> after = Workers();
  std::set<pid_t> kept;
  std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                        std::inserter(kept, kept.begin()));
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_TRUE(training->WaitForLine("continuing with 2 workers", Seconds(0)))
      << "they waited for a process to start";
  training->Signal(SIGTERM);
  EXPECT_EQ(training->Wait(), 143) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("stopped at step "), HasSubstr("the same command continues from")));
  ExpectExactlyOnce({"long"}, {"--partial"});

  const auto losses = Losses("long");
  const int epochs = static_cast<int>(losses.size()) / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(2, "long", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_THAT(resumed->Text(), HasSubstr("resumed from"));
  ExpectUndisturbed("long", epochs);
}

TEST_F(ElasticTrainingTest, JobKilledAtOnceContinuesFromTheNewestCheckpoint) {
  const auto training = TrainHere(2, "run", 100000, {"--checkpoint_steps", "7", "--log_every", "50"});
  ASSERT_TRUE(training->WaitForLine("epoch 4/100000")) << training->Text();
  // Steps are faster than the disk.
  while (Checkpoints("run") == 0) ASSERT_FALSE(training->Wait(Seconds(0.01))) << training->Text();
  for (const pid_t pid : mark_.Alive()) kill(pid, SIGKILL);
  ASSERT_EQ(training->Wait(), 137);
  const int epochs = static_cast<int>(Losses("run").size()) / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(3, "run", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_THAT(resumed->Text(), HasSubstr("resumed from"));
  ExpectUndisturbed("run", epochs);
}

/// Nodes share no folder: the writer's is lost with its node, and the other node's suffices to continue.
TEST_F(ElasticTrainingTest, EveryNodeWithItsOwnFolderKeepsCheckpoints) {
  const std::vector<std::string> often = {"--checkpoint_steps", "7"};
  const auto first = TrainNode(0, "lost", 100000, often);
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  const auto second = TrainNode(1, "kept", 100000, often);
  ASSERT_TRUE(second->WaitForLine("checkpoints are also saved in this node's"))
      << first->Text() << second->Text();
  while (Checkpoints("kept") == 0) ASSERT_FALSE(second->Wait(Seconds(0.01))) << second->Text();
  for (const pid_t pid : mark_.Alive()) kill(pid, SIGKILL);
  ASSERT_EQ(first->Wait(), 137);
  ASSERT_EQ(second->Wait(), 137);
  // The lost node's ledger is still needed to prove what was consumed before.
  const int epochs = static_cast<int>(Losses("lost").size()) / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(2, "kept", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_THAT(resumed->Text(), HasSubstr("resumed from"));
  ExpectExactlyOnce({"lost", "kept"});
}

/// No other checkpoint exists from which it could continue.
TEST_F(ElasticTrainingTest, JobStoppedWithACheckpointContinuesAtThatStep) {
  const std::vector<std::string> none = {"--checkpoint_seconds", "0", "--checkpoint_epochs", "0"};
  const auto first = TrainNode(0, "run", 100000, none, {}, "2");
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  const auto second = TrainNode(1, "run", 100000, none, {}, "2");
  ASSERT_TRUE(first->WaitForLine("epoch 2/100000")) << first->Text() << second->Text();
  ASSERT_EQ(Checkpoints("run"), 0);
  Program stop(Command({"--stop", endpoint_, "--checkpoint"}), Environment());
  EXPECT_EQ(stop.Wait(), 0) << stop.Text();
  for (const auto* node : {&first, &second}) EXPECT_EQ((*node)->Wait(), 143) << (*node)->Text();
  auto stopped = first->WaitForLine("stopped at step ", Seconds(0));
  // A node that is notified a step later than the other one saves alone.
  if (!stopped) stopped = second->WaitForLine("stopped at step ", Seconds(0));
  ASSERT_TRUE(stopped.has_value()) << first->Text() << second->Text();
  const int step = std::stoi(stopped->substr(stopped->find("at step ") + 8));
  EXPECT_EQ(Checkpoints("run"), 1) << first->Text();
  EXPECT_EQ(Losses("run").size(), static_cast<size_t>(step));

  const int epochs = step / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(3, "run", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  const auto line = resumed->WaitForLine("resumed from ", Seconds(0));
  ASSERT_TRUE(line.has_value()) << resumed->Text();
  EXPECT_THAT(*line, EndsWith(absl::StrCat(" at step ", step)));
  ExpectUndisturbed("run", epochs);
}

TEST_F(ElasticTrainingTest, NodesThatShareAFolderHaveOneWriter) {
  const auto first = TrainNode(0, "shared", 100000);
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  const auto second = TrainNode(1, "shared", 100000);
  ASSERT_TRUE(first->WaitForLine("world size 2")) << first->Text() << second->Text();
  ASSERT_TRUE(first->WaitForLine("epoch 3/100000")) << first->Text() << second->Text();
  for (const auto* node : {&first, &second}) (*node)->Signal(SIGTERM);
  for (const auto* node : {&first, &second}) {
    (*node)->Wait();
    EXPECT_THAT((*node)->Text(), Not(HasSubstr("checkpoints are also saved in this node's")));
  }
}

TEST_F(ElasticTrainingTest, NodesJoinAndLeaveWhileTheOthersTrain) {
  const auto first = TrainNode(0, "nodes", 100000);
  ASSERT_TRUE(first->WaitForLine("epoch 2/100000")) << first->Text();
  const std::set<pid_t> before = Workers();
  const auto second = TrainNode(1, "nodes", 100000);
  ASSERT_TRUE(first->WaitForLine("continuing with 2 workers")) << first->Text() << second->Text();
  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  ASSERT_TRUE(first->WaitForLine("continuing with 1 worker at")) << first->Text();
  EXPECT_EQ(Workers(), before);
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
  ExpectExactlyOnce({"nodes"}, {"--partial"});
}

/// 1 -> 4 -> 2 -> 3 nodes while a network with more state than its weights trains.
class ScaleStormTest : public ElasticTrainingTest {
 protected:
  static constexpr int kStorm = 4;  // epochs

  void Scale(const std::string& run, const std::vector<std::string>& more) {
    // Slow enough for each membership to make some steps.
    const support::Overlay pace = {{"MTRUN_PACE", "0.25"}};
    const auto node = [&](int rank) { return TrainNode(rank, run, kStorm, more, pace, "1:4"); };
    const auto says = [](const std::unique_ptr<Program>& agent, const std::string& text) {
      return agent->WaitForLine(text, Seconds(60));
    };
    std::vector<std::unique_ptr<Program>> nodes;
    nodes.push_back(node(0));
    ASSERT_TRUE(says(nodes[0], "epoch 1/4")) << nodes[0]->Text();
    for (int rank = 1; rank < 4; ++rank) nodes.push_back(node(rank));
    ASSERT_TRUE(says(nodes[0], "continuing with 4 workers")) << nodes[0]->Text();
    nodes[3]->Signal(SIGTERM);
    nodes[2]->Signal(SIGKILL);
    ASSERT_TRUE(says(nodes[0], "continuing with 2 workers")) << nodes[0]->Text();
    EXPECT_EQ(nodes[3]->Wait(), 0) << nodes[3]->Text();
    nodes.push_back(node(4));
    ASSERT_TRUE(says(nodes[0], "continuing with 3 workers")) << nodes[0]->Text();
    for (const int left : {0, 1, 4}) EXPECT_EQ(nodes[left]->Wait(Seconds(200)), 0) << nodes[left]->Text();
    ExpectExactlyOnce({run});
  }

  double LargestDifference(const std::string& a, const std::string& b) {
    const auto first = Losses(a), second = Losses(b);
    EXPECT_EQ(first.size(), static_cast<size_t>(kStorm * kStepsPerEpoch));
    EXPECT_EQ(first.size(), second.size());
    double largest = 0;
    for (const auto& [step, loss] : first)
      largest = std::max(largest, std::abs(loss - second.at(step)) / std::abs(loss));
    return largest;
  }
};

TEST_F(ScaleStormTest, CnnBWithSyncBatchNorm) {
  program_ = "cnnB";
  const std::vector<std::string> flags = {"--sync_bn", "--eval_images", "8"};
  Scale("storm", flags);
  ASSERT_EQ(TrainHere(1, "alone", kStorm, flags)->Wait(Seconds(200)), 0);
  // Batch normalisation over few samples amplifies the rounding of the first step from step to step.
  EXPECT_LT(LargestDifference("alone", "storm"), 1e-6);
}

TEST_F(ScaleStormTest, VitInBfloat16WithAccumulation) {
  program_ = "vit";
  precision_.clear();
  const std::vector<std::string> flags = {"--amp", "bf16", "--eval_images", "8"};
  Scale("storm", flags);
  for (const int world : {1, 2, 3})
    ASSERT_EQ(TrainHere(world, absl::StrCat("calm", world), kStorm, flags)->Wait(Seconds(200)), 0);
  EXPECT_EQ(LargestDifference("calm1", "calm2"), 0) << "the same bits";
  EXPECT_EQ(LargestDifference("calm1", "calm3"), 0);
  EXPECT_EQ(LargestDifference("calm1", "storm"), 0);
}

TEST_F(ElasticTrainingTest, OnlyTheNodeWithDifferentSettingsIsRejected) {
  const auto first = TrainNode(0, "nodes", 100000);
  ASSERT_TRUE(first->WaitForLine("epoch 2/100000")) << first->Text();
  const std::set<pid_t> before = Workers();
  const auto other = TrainNode(1, "nodes", 100000, {"--learning_rate", "0.5"});
  EXPECT_NE(other->Wait(), 0);
  EXPECT_THAT(other->Text(), AllOf(HasSubstr("learning_rate"), HasSubstr("is evicted")));
  const auto encrypts = TrainNode(1, "nodes", 100000, {"--encrypt_gradients"});
  EXPECT_NE(encrypts->Wait(), 0);
  EXPECT_THAT(encrypts->Text(), AllOf(HasSubstr("give --encrypt_gradients to all"), HasSubstr("is evicted")));
  const auto nonsense = TrainNode(1, "nodes", 100000, {"--nonsense"});
  EXPECT_EQ(nonsense->Wait(), 2);
  EXPECT_THAT(nonsense->Text(), HasSubstr("--nonsense"));
  const auto right = TrainNode(1, "nodes", 100000);
  ASSERT_TRUE(right->WaitForLine("generation ")) << right->Text();
  ASSERT_TRUE(first->WaitForLine("continuing with 2 workers")) << first->Text() << right->Text();
  right->Signal(SIGTERM);
  EXPECT_EQ(right->Wait(), 0) << right->Text();
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
  EXPECT_EQ(std::set<pid_t>(), Workers());
  EXPECT_EQ(before.size(), 1u);
  ExpectExactlyOnce({"nodes"}, {"--partial"});
}

/// Two workers hold because the other node is gone; then the worker with the lower local rank dies, and its
/// successor has no state. The state of the other worker must not be lost when the node is drained.
TEST_F(ElasticTrainingTest, AnyWorkerWithTheStateSavesItIfDrainedWhileWaiting) {
  const std::vector<std::string> meeting = {"--nnodes", "2", "--rdzv_endpoint", endpoint_};
  const std::vector<std::string> no_checkpoints = {"--checkpoint_seconds", "0", "--checkpoint_epochs", "0"};
  const auto first =
      Train(Words(meeting, {"--nproc_per_node", "2", "--node_rank", "0"}), "held", 100000, no_checkpoints);
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  const auto other = Train(Words(meeting, {"--node_rank", "1"}), "held", 100000, no_checkpoints);
  ASSERT_TRUE(first->WaitForLine("epoch 3/100000")) << first->Text() << other->Text();
  other->Signal(SIGKILL);
  ASSERT_TRUE(first->WaitForLine("generation 1 ended")) << first->Text();
  ASSERT_EQ(Checkpoints("held"), 0);
  const std::set<pid_t> workers = Workers();
  pid_t lowest = 0;
  for (const pid_t pid : workers) {
    const std::string environment = support::ReadText(absl::StrCat("/proc/", pid, "/environ"));
    if (environment.find(std::string("LOCAL_RANK=0") + '\0') != std::string::npos) lowest = pid;
  }
  ASSERT_NE(lowest, 0);
  kill(lowest, SIGKILL);
  ASSERT_TRUE(first->WaitForLine("killed by SIGKILL")) << first->Text();
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
  EXPECT_EQ(Checkpoints("held"), 1) << first->Text();
}

TEST_F(ElasticTrainingTest, RestartWithDifferentSettingsIsRefusedWithTheDifferences) {
  ASSERT_EQ(TrainHere(1, "run", 1)->Wait(), 0);
  const auto other = TrainHere(2, "run", 2, {"--learning_rate", "0.01"});
  EXPECT_EQ(other->Wait(), 2) << other->Text();
  EXPECT_THAT(other->Text(), AllOf(HasSubstr("learning_rate is 0.01, but the checkpoint has 0.05"),
                                   HasSubstr("--resume=false")));
  const auto anew = TrainHere(1, "run", 1, {"--learning_rate", "0.01", "--resume=false"});
  EXPECT_EQ(anew->Wait(), 0) << anew->Text();
  EXPECT_THAT(anew->Text(), HasSubstr("previous_1"));
  EXPECT_FALSE(support::ReadText(folder_.File("run") + "/previous_1/ledger.jsonl").empty());
}

TEST_F(ElasticTrainingTest, VerifierDetectsLostRepeatedAndChangedSteps) {
  ASSERT_EQ(TrainHere(1, "run", 2)->Wait(), 0);
  ExpectExactlyOnce({"run"});
  const std::string path = folder_.File("run") + "/ledger.jsonl";
  const std::string good = support::ReadText(path);
  const auto verdict = [&](const std::string& text) {
    support::WriteText(path, text);
    Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File("run")});
    EXPECT_EQ(verify.Wait(), 1) << verify.Text();
    return verify.Text();
  };
  const size_t third = good.find("{\"step\":2,"), fourth = good.find("{\"step\":3,");
  ASSERT_TRUE(third != std::string::npos && fourth != std::string::npos);
  EXPECT_THAT(verdict(good.substr(0, third) + good.substr(fourth)),
              AllOf(HasSubstr("1 steps are lost, the first is 2"), HasSubstr("the chain is broken"),
                    HasSubstr("12 samples are lost")));
  std::string changed = good;
  changed[changed.find("\"ids\":\"", fourth) + 7] ^= 1;
  EXPECT_THAT(verdict(changed), AllOf(HasSubstr("consumed other samples"), HasSubstr("the chain is broken")));
  EXPECT_THAT(verdict(good.substr(0, good.rfind("{\"step\":17,"))), HasSubstr("the last epoch is not whole"));
}

}  // namespace
}  // namespace mtrun::e2e
