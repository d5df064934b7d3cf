// mtrun under a real Slurm: settings from its variables, signals, limits, lost nodes and requeues, and a
// token shared by PMI2. tools/test --full; tools/setup --test-tools installs Slurm.
#include <csignal>

#include "tests/e2e/slurm.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

/// Each worker of two nodes prints its rank once.
constexpr char kSaysWhoItIs[] = "echo rank $RANK of $WORLD_SIZE on $(hostname)\n";
constexpr char kStays[] = "echo ready on $(hostname)\nsleep 1000\n";

TEST_F(SlurmTest, SrunNeedsNoFlags) {
  const auto srun = Start({"srun", "-N2", "mtrun", "--nproc_per_node", "2", Script("run.sh", kSaysWhoItIs)});
  EXPECT_EQ(srun->Wait(), 0) << srun->Text();
  std::vector<std::string> ranks;
  for (const std::string& line : From(srun->OutLines(), "rank ")) ranks.push_back(line);
  EXPECT_THAT(ranks, UnorderedElementsAre("rank 0 of 4 on node1", "rank 1 of 4 on node1",
                                          "rank 2 of 4 on node2", "rank 3 of 4 on node2"));
  for (const char* derived :
       {"--nnodes 2 (SLURM_STEP_NODELIST)", "--node_rank 0 (SLURM_PROCID)", "--node_rank 1 (SLURM_PROCID)",
        "--rdzv_endpoint node1:15001 (the first host of SLURM_STEP_NODELIST, a port by job and step)",
        "--rdzv_id slurm-1.0 (SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT)"})
    EXPECT_THAT(srun->Text(), HasSubstr(derived));
}

TEST_F(SlurmTest, FlagOverridesTheStep) {
  const auto srun =
      Start({"srun", "-N2", "mtrun", "--rdzv_id", "mine", "--nnodes", "1:2", "--rdzv_conf",
             "last_call_timeout=60", Script("run.sh", "echo run $TORCHELASTIC_RUN_ID of $WORLD_SIZE\n")});
  EXPECT_EQ(srun->Wait(), 0) << srun->Text();
  EXPECT_THAT(srun->Text(), AllOf(HasSubstr("run mine of 2"), Not(HasSubstr("--rdzv_id slurm")),
                                  Not(HasSubstr("--nnodes 2 (")), HasSubstr("--node_rank 1 (SLURM_PROCID)")));
}

/// This cluster has no GPUs to allocate: the test sets the variables of a step with GPUs.
TEST_F(SlurmTest, GpusAndProcessorsOfAStepGiveTheWorkers) {
  const std::string run = Script("run.sh", kSaysWhoItIs);
  const auto gpus = Start({"srun", "-N2", "sh", "-c", "SLURM_GPUS_ON_NODE=2 exec mtrun \"$@\"", "sh", run});
  EXPECT_EQ(gpus->Wait(), 0) << gpus->Text();
  EXPECT_THAT(gpus->Text(),
              AllOf(HasSubstr("--nproc_per_node 2 (SLURM_GPUS_ON_NODE)"), HasSubstr("rank 3 of 4 on node2")));
  // The node's CPU count in Slurm (CPUs=2), and a smaller one, if the machine has as many.
  const std::string counts = Script("cpus.sh", "echo $WORLD_SIZE workers, $SLURM_CPUS_ON_NODE processors\n");
  support::Overlay without_gpus = Submitter();
  without_gpus["CUDA_VISIBLE_DEVICES"] = "";
  const auto all = Start({"srun", "-N1", "mtrun", "--nproc_per_node", "auto", counts}, without_gpus);
  EXPECT_EQ(all->Wait(), 0) << all->Text();
  EXPECT_THAT(all->Text(), ContainsRegex("[12] workers, 2 processors"));
  const auto one = Start({"srun", "-N1", "sh", "-c", "SLURM_CPUS_ON_NODE=1 exec mtrun \"$@\"", "sh",
                          "--nproc_per_node", "auto", counts},
                         without_gpus);
  EXPECT_EQ(one->Wait(), 0) << one->Text();
  EXPECT_THAT(one->Text(), HasSubstr("1 workers, 1 processors"));
}

/// Two steps of one allocation, at the same time.
TEST_F(SlurmTest, StepsOfABatchScriptAreSeparateJobs) {
  const std::string run = Script("run.sh", "echo step $TORCHELASTIC_RUN_ID rank $RANK of $WORLD_SIZE\n");
  const std::string step = absl::StrCat("srun --overlap mtrun ", run, " &\n");
  const std::string id = Submit({"-N2", "--wait"}, Script("job.sh", step + step + "wait\n"));
  for (const char* number : {"0", "1"})
    for (const char* rank : {"0", "1"})
      EXPECT_THAT(Output(), HasSubstr(absl::StrCat("step slurm-", id, ".", number, " rank ", rank, " of 2")));
}

/// srun exports the worker's environment to the new step, in which no mtrun is above the new ones.
TEST_F(SlurmTest, StepThatAWorkerStartsIsAJobOfItsOwn) {
  const std::string run = Script("run.sh", kSaysWhoItIs),
                    worker = Script("worker.sh", absl::StrCat("exec srun -N2 mtrun ", run, "\n"));
  Submit({"-N2", "--wait"}, Script("job.sh", absl::StrCat("exec mtrun ", worker, "\n")));
  for (const char* who : {"rank 0 of 2 on node1", "rank 1 of 2 on node2"})
    EXPECT_THAT(Output(), HasSubstr(who));
}

/// Job control gives mtrun a process group of its own, as an interactive shell does; the shells of the other
/// tasks read nothing and end. `script` is the terminal.
TEST_F(SlurmTest, ShellOfAStepIsOneNodeAndItsScriptIsNot) {
  const std::string run = Script("run.sh", kSaysWhoItIs);
  const auto in_step = [&](const std::string& shell) {
    return Start(
        {"script", "-qec", absl::StrCat("srun -N2 --pty sh -c '", shell, "mtrun ", run, "'"), "/dev/null"});
  };
  const auto shell = in_step("[ $SLURM_PROCID = 0 ] || exit 0; set -m; ");
  EXPECT_EQ(shell->Wait(), 0) << shell->Text();
  EXPECT_THAT(shell->Text(),
              AllOf(HasSubstr("--nnodes 1 (a shell of srun --pty"), HasSubstr("rank 0 of 1 on node1")));
  const auto script = in_step("");
  EXPECT_EQ(script->Wait(), 0) << script->Text();
  EXPECT_THAT(script->Text(), HasSubstr("rank 0 of 2 on node1"));
}

TEST_F(SlurmTest, SeveralTasksPerNodeAreRefused) {
  const auto srun = Start({"srun", "-N1", "-n2", "mtrun", Script("run.sh", kSaysWhoItIs)});
  EXPECT_EQ(srun->Wait(), 2) << srun->Text();
  EXPECT_THAT(srun->Text(), HasSubstr("srun --ntasks-per-node=1 mtrun --nproc_per_node 2"));
}

TEST_F(SlurmTest, FailureIsSrunsExitStatus) {
  const auto srun = Start({"srun", "-N2", "mtrun",
                           Script("run.sh", "[ $RANK = 1 ] && echo the cause >&2 && exit 7\nsleep 1000\n")});
  EXPECT_EQ(srun->Wait(), 7) << srun->Text();
  EXPECT_THAT(srun->Text(), AllOf(HasSubstr("run.sh FAILED"), HasSubstr("the cause")));
}

TEST_F(SlurmTest, ScancelLeavesNoProcess) {
  const std::string id =
      Submit({"-N2"}, Script("job.sh", absl::StrCat("srun mtrun ", Script("run.sh", kStays), "\n")));
  ASSERT_TRUE(WaitForOutput("ready on node1")) << Output();
  ASSERT_TRUE(WaitForOutput("ready on node2")) << Output();
  Ask({"scancel", id});
  EXPECT_TRUE(mark_.WaitForNone(kSoon)) << Output();
  EXPECT_THAT(Output(), HasSubstr("received SIGTERM"));
}

/// For workers that are not cooperative mtrun's status is the signal's. Slurm signals all nodes of a step,
/// but a node may learn that another one leaves before it gets its own signal: its workers then get SIGTERM.
/// Slurm signals the workers' children, too, one process after the other: a worker continues if its sleep has
/// ended before its own turn.
TEST_F(SlurmTest, JobIsStoppedBeforeItsTimeLimitRequeuedAndContinued) {
  const std::string saved = folder_.File("saved"),
                    run = Script(
                        "run.sh",
                        absl::StrCat("[ -e ", saved,
                                     ".$RANK ] && echo continues $TORCHELASTIC_RUN_ID && exit 0\n",
                                     "trap 'touch ", saved, ".$RANK; echo saved $RANK; exit 0' USR1 TERM\n",
                                     "echo ready $RANK\nwhile :; do sleep 1000 & wait; done\n"));
  const std::string job =
      Script("job.sh", absl::StrCat("srun --kill-on-bad-exit=0 mtrun ", run,
                                    "\nstatus=$?\necho status $status\n"
                                    "[ $status = 138 ] && scontrol requeue $SLURM_JOB_ID\nexit $status\n"));
  const std::string id = Submit({"-N2", "--time=1", "--signal=USR1@45", "--requeue"}, job);
  ASSERT_TRUE(WaitForOutput("ready 1")) << Output();
  ASSERT_TRUE(WaitForOutput("status 138", kMinutes)) << Output();
  ASSERT_TRUE(WaitForOutput("status 0", kMinutes)) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("received SIGUSR1"), HasSubstr("saved 0"), HasSubstr("saved 1"),
                              HasSubstr(absl::StrCat("continues slurm-", id, ".0-requeued-1"))));
}

/// Slurm kills the processes there, including the rendezvous if it is on that node.
class SlurmDownTest : public SlurmTest, public testing::WithParamInterface<int> {};

TEST_P(SlurmDownTest, OtherNodesContinueWithoutADownNode) {
  const int lost = GetParam(), left = 3 - lost;
  // Slurm may end the step before the last lines arrive, so the survivor leaves a file.
  const std::string finished = folder_.File("finished"),
                    run = Script("run.sh",
                                 absl::StrCat(kSaysWhoItIs, "[ $WORLD_SIZE = 1 ] || exec sleep 1000\n",
                                              "touch ", finished, "\n"));
  const auto srun = Start({"srun", "-N2", "--no-kill", "--kill-on-bad-exit=0", "mtrun", "--nnodes", "1:2",
                           "--rdzv_conf", "last_call_timeout=60", run});
  ASSERT_TRUE(srun->WaitForLines(" of 2 on ", 2)) << srun->Text();
  Ask({"scontrol", "update", absl::StrCat("nodename=node", lost), "state=down", "reason=test"});
  EXPECT_TRUE(srun->WaitForLine(absl::StrCat("rank 0 of 1 on node", left))) << srun->Text();
  EXPECT_EQ(srun->Wait(), 128 + SIGKILL) << "of all tasks' statuses srun has the highest\n" << srun->Text();
  EXPECT_TRUE(std::filesystem::exists(finished)) << srun->Text();
}

INSTANTIATE_TEST_SUITE_P(Node, SlurmDownTest, testing::Values(1, 2));

TEST_F(SlurmTest, RequeueStartsANewJob) {
  const std::string run =
      Script("run.sh", "echo run $TORCHELASTIC_RUN_ID\n[ \"$SLURM_RESTART_COUNT\" = 1 ] || sleep 1000\n");
  const std::string id =
      Submit({"-N2", "--requeue"}, Script("job.sh", absl::StrCat("srun mtrun ", run, "\necho over\n")));
  ASSERT_TRUE(WaitForOutput(absl::StrCat("run slurm-", id, ".0"))) << Output();
  Ask({"scontrol", "requeue", id});
  ASSERT_TRUE(WaitForOutput("over", kMinutes)) << Output();
  EXPECT_THAT(Output(), HasSubstr(absl::StrCat("run slurm-", id, ".0-requeued-1")));
}

TEST_F(SlurmTest, Pmi2SharesTheTokenIfThereIsNoFile) {
  const std::string run =
      Script("run.sh", "env | grep -E '^(PMI_|MTRUN_TOKEN)'\necho rank $RANK of $WORLD_SIZE\n");
  const auto srun = Start({"srun", "--mpi=pmi2", "-N2", "mtrun", run}, WithoutToken());
  EXPECT_EQ(srun->Wait(), 0) << srun->Text();
  EXPECT_TRUE(srun->WaitForLines("over Slurm's key-value space", 2)) << srun->Text();
  EXPECT_THAT(srun->Text(),
              AllOf(HasSubstr("rank 1 of 2"), Not(HasSubstr("PMI_RANK")), Not(HasSubstr("mtrun1-"))));
  EXPECT_FALSE(std::filesystem::exists(folder_.File(".mtrun/token")));
}

TEST_F(SlurmTest, SharedHomesTokenPrecedesPmi2) {
  const auto first = Start({"srun", "-N2", "mtrun", Script("run.sh", kSaysWhoItIs)}, WithoutToken());
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_TRUE(std::filesystem::exists(folder_.File(".mtrun/token")));
  const auto second =
      Start({"srun", "--mpi=pmi2", "-N2", "mtrun", Script("run.sh", kSaysWhoItIs)}, WithoutToken());
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(second->Text(), AllOf(HasSubstr("rank 1 of 2"), Not(HasSubstr("key-value space"))));
}

}  // namespace
}  // namespace mtrun::e2e
