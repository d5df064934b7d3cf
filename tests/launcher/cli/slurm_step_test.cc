#include "launcher/cli/slurm_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Returns the environment of the second task of srun --nodes=2 --ntasks-per-node=1.
EnvironmentMap Step() {
  return {{"SLURM_JOB_ID", "7001"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NODELIST", "n[4-5]"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
          {"SLURM_PROCID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_LOCALID", "0"}};
}

EnvironmentMap With(EnvironmentMap environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

TEST(SlurmStep, DerivesNodesRankEndpointAndId) {
  EXPECT_THAT(*SettingsOfSlurmStep(Step()),
              ElementsAre(DerivedSetting{"nnodes", "2", "SLURM_STEP_NODELIST"},
                          DerivedSetting{"node_rank", "1", "SLURM_PROCID"},
                          DerivedSetting{"rdzv_endpoint", "n4:17195",
                                         "the first host of SLURM_STEP_NODELIST, a port by job and step"},
                          DerivedSetting{"rdzv_id", "slurm-7001.2",
                                         "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT"}));
}

TEST(SlurmStep, BatchScriptAndWorkerAreNotInAStep) {
  EXPECT_TRUE(IsInSlurmStep(Step()));
  EnvironmentMap batch = Step();
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(IsInSlurmStep(batch));
  EXPECT_FALSE(IsInSlurmStep(With(Step(), "MTRUN_SOCKET", "@x")));
  EXPECT_FALSE(IsInSlurmStep({}));
}

TEST(SlurmStep, RequeuedJobHasAnotherId) {
  EXPECT_EQ(SettingsOfSlurmStep(With(Step(), "SLURM_RESTART_COUNT", "3"))->at(3).value,
            "slurm-7001.2-requeued-3");
  EXPECT_EQ(SettingsOfSlurmStep(With(Step(), "SLURM_RESTART_COUNT", "0"))->at(3).value, "slurm-7001.2");
}

TEST(SlurmStep, GpusGiveTheWorkers) {
  EXPECT_EQ(SettingsOfSlurmStep(With(Step(), "SLURM_GPUS_ON_NODE", "4"))->back(),
            (DerivedSetting{"nproc_per_node", "4", "SLURM_GPUS_ON_NODE"}));
  EXPECT_EQ(SettingsOfSlurmStep(With(Step(), "SLURM_GPUS_ON_NODE", "0"))->size(), 4u);
}

TEST(SlurmStep, ErrorNamesAMalformedVariable) {
  const auto error = [](const EnvironmentMap& environment) {
    return std::string(SettingsOfSlurmStep(environment).status().message());
  };
  EXPECT_THAT(error(With(Step(), "SLURM_JOB_ID", "x")), HasSubstr("SLURM_JOB_ID is \"x\""));
  EXPECT_THAT(error(With(Step(), "SLURM_STEP_NODELIST", "n[1-")), HasSubstr("SLURM_STEP_NODELIST"));
  const auto tasks = [](const std::string& counts) {
    return std::string(CheckOneTaskANode(With(Step(), "SLURM_STEP_TASKS_PER_NODE", counts)).message());
  };
  EXPECT_THAT(tasks("1(x"), HasSubstr("SLURM_STEP_TASKS_PER_NODE"));
  EXPECT_THAT(tasks("4(x2)"), AllOf(HasSubstr("4 tasks on a node"), HasSubstr("--ntasks-per-node=1")));
  EXPECT_EQ(tasks("1(x2)"), "");
}

/// srun -n 8 -N 2 --pty bash: SLURM_TASK_PID is the shell's pid, and a shell gives each command its own
/// group.
TEST(SlurmStep, ShellIsOneNodeUnlessToldOtherwise) {
  const EnvironmentMap shell =
      With(With(Step(), "SLURM_STEP_TASKS_PER_NODE", "4(x2)"), "SLURM_PTY_PORT", "5");
  const MachineFacts machine{.cpus = 6, .in_slurm_shell = true};
  const auto plain = Parse("--nproc_per_node 2 x", shell, machine);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->standalone);
  EXPECT_FALSE(plain->node_rank.has_value());
  EXPECT_FALSE(plain->nodes_from_slurm);
  EXPECT_EQ(plain->derived,
            "from Slurm: --nnodes 1 (a shell of srun --pty; srun --overlap mtrun uses all 2 nodes)");
  const auto both = Parse("--nnodes 2 x", shell, machine);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->job.min_nodes, 2);
  EXPECT_EQ(both->endpoint, "n4:17195");
  const auto alone = Parse("x", With(shell, "SLURM_STEP_NODELIST", "n4"), machine);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->standalone);
  EXPECT_THAT(alone->derived, IsEmpty());
}

TEST(SlurmStep, ShellIsRecognisedByItsProcessGroup) {
  const EnvironmentMap pty = With(Step(), "SLURM_PTY_PORT", "5");
  const auto task = [&](pid_t pid) { return With(pty, "SLURM_TASK_PID", absl::StrCat(pid)); };
  EXPECT_TRUE(IsInSlurmShell(task(1))) << "init is in another group";
  EXPECT_FALSE(IsInSlurmShell(task(getpid()))) << "the task itself, or a script of it";
  EXPECT_FALSE(IsInSlurmShell(With(Step(), "SLURM_TASK_PID", "1"))) << "no --pty";
  EXPECT_FALSE(IsInSlurmShell(pty));
}

/// Each mtrun of the step is then a job of its own, as under torchrun.
TEST(SlurmStep, NodeCountOfOneIsNotRefusedForSeveralTasks) {
  const auto one = Parse("--nnodes 1 train.py", With(Step(), "SLURM_STEP_TASKS_PER_NODE", "4(x2)"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(one->standalone);
  EXPECT_FALSE(one->nodes_from_slurm);
}

TEST(SlurmStep, CommandLineNeedsNoFlags) {
  const auto options = Parse("train.py", Step());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.min_nodes, 2);
  EXPECT_EQ(options->job.max_nodes, 2);
  EXPECT_EQ(options->node_rank, 1);
  EXPECT_EQ(options->endpoint, "n4:17195");
  EXPECT_EQ(options->job.job_id, "slurm-7001.2");
  EXPECT_FALSE(options->run_id_given);  // different programs are still refused
  EXPECT_FALSE(options->standalone);
  EXPECT_TRUE(options->nodes_from_slurm);
  EXPECT_THAT(options->derived, HasSubstr("--node_rank 1 (SLURM_PROCID)"));
}

TEST(SlurmStep, FlagOverridesTheStep) {
  const auto options = Parse("--nnodes 1:8 --rdzv_id mine --nproc_per_node 3 train.py",
                             With(Step(), "SLURM_GPUS_ON_NODE", "4"));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.min_nodes, 1);
  EXPECT_EQ(options->job.max_nodes, 8);
  EXPECT_EQ(options->job.job_id, "mine");
  EXPECT_TRUE(options->run_id_given);
  EXPECT_EQ(options->workers, 3);
  EXPECT_EQ(options->endpoint, "n4:17195");
  EXPECT_THAT(options->derived, testing::Not(HasSubstr("rdzv_id")));
}

TEST(SlurmStep, NothingIsDerivedIfTheEndpointIsGiven) {
  for (const char* line : {"--standalone train.py", "--nnodes 2 --rdzv_endpoint a:1 train.py",
                           "--nnodes 2 --master_addr a --node_rank 0 train.py"}) {
    // Even an invalid step is not an error here.
    const auto options = Parse(line, With(Step(), "SLURM_STEP_TASKS_PER_NODE", "4(x2)"));
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_THAT(options->derived, IsEmpty()) << line;
    EXPECT_NE(options->endpoint, "n4:17195");
  }
  EXPECT_FALSE(Parse("train.py", With(Step(), "SLURM_STEP_TASKS_PER_NODE", "4(x2)")).ok());
}

TEST(SlurmStep, SingleNodeIsStandalone) {
  const auto options =
      Parse("train.py", With(With(Step(), "SLURM_STEP_NODELIST", "n4"), "SLURM_PROCID", "0"));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.max_nodes, 1);
  EXPECT_TRUE(options->standalone);
}

TEST(SlurmStep, NodeCountOfOneMakesAStandaloneJob) {
  for (const char* nodes : {"--nnodes 1", "--nnodes 1:1"}) {
    const auto options = Parse(absl::StrCat(nodes, " train.py"), Step());
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_TRUE(options->standalone) << nodes;
    EXPECT_FALSE(options->node_rank.has_value());
    EXPECT_FALSE(options->run_id_given);
    EXPECT_THAT(options->job.job_id, testing::Not(HasSubstr("slurm")));
    EXPECT_THAT(options->derived, IsEmpty());
  }
  const auto named = Parse("train.py", With(Step(), "PET_NNODES", "1"));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_TRUE(named->standalone);
  const auto gpus = Parse("--nnodes 1 train.py", With(Step(), "SLURM_GPUS_ON_NODE", "4"));
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ(gpus->workers, 4);
  EXPECT_EQ(gpus->derived, "from Slurm: --nproc_per_node 4 (SLURM_GPUS_ON_NODE)");
}

}  // namespace
}  // namespace mtrun::launcher
