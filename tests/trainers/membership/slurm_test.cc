#include "trainers/membership/slurm.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(Slurm, FindsTheFirstHostOfAList) {
  EXPECT_EQ(FirstHost(""), "");
  EXPECT_EQ(FirstHost("node1"), "node1");
  EXPECT_EQ(FirstHost("node1,node2"), "node1");
  EXPECT_EQ(FirstHost("node[07-09,12],login"), "node07");
  EXPECT_EQ(FirstHost("gpu[3]-ib,x"), "gpu3-ib");
}

EnvironmentMap Task() {
  return {{"SLURM_JOB_ID", "12345"},     {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"},
          {"SLURM_LOCALID", "1"},        {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};
}

TEST(Slurm, TaskOfAStepIsAWorker) {
  EnvironmentMap environment = Task();
  AddSlurm(environment);
  const auto worker = ParseWorkerEnv(environment);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->rank, 3);
  EXPECT_EQ(worker->world_size, 4);
  EXPECT_EQ(worker->local_rank, 1);
  EXPECT_EQ(worker->local_world_size, 2);
  EXPECT_EQ(worker->master_addr, "n1");
  EXPECT_EQ(worker->master_port, 22345);
}

TEST(Slurm, ExistingVariablesAreKept) {
  EnvironmentMap environment = Task();
  environment["MASTER_ADDR"] = "head";
  environment["MASTER_PORT"] = "29500";
  AddSlurm(environment);
  EXPECT_EQ(environment["MASTER_ADDR"], "head");
  EXPECT_EQ(environment["MASTER_PORT"], "29500");
}

TEST(Slurm, OtherLaunchersAndSingleTasksAreLeftAlone) {
  for (const auto& [name, value] :
       EnvironmentMap{{"MTRUN_SOCKET", "/s"}, {"SLURM_STEP_ID", ""}, {"SLURM_STEP_NUM_TASKS", "1"}}) {
    EnvironmentMap environment = Task();
    environment[name] = value;
    const EnvironmentMap before = environment;
    AddSlurm(environment);
    EXPECT_EQ(environment, before) << name;
  }
  EnvironmentMap torchrun = Task();
  torchrun["RANK"] = "0";
  torchrun["WORLD_SIZE"] = "2";
  AddSlurm(torchrun);
  EXPECT_EQ(torchrun["WORLD_SIZE"], "2");
}

}  // namespace
}  // namespace mtrun::trainers
