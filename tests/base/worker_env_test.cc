#include "base/worker_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace mtrun {
namespace {

using testing::HasSubstr;

WorkerEnv Sample() {
  WorkerEnv w;
  w.rank = 5;
  w.local_rank = 1;
  w.world_size = 8;
  w.local_world_size = 4;
  w.group_rank = 1;
  w.group_world_size = 2;
  w.role_rank = 5;
  w.role_world_size = 8;
  w.role_name = "trainer";
  w.master_addr = "10.0.0.1";
  w.master_port = 40123;
  w.restart_count = 2;
  w.max_restarts = 3;
  w.run_id = "job";
  w.error_file = "/logs/error.json";
  w.socket = "/tmp/agent.sock";
  w.generation = "7.00000000000000ff";
  w.lease = 9;
  return w;
}

std::string Complaint(const EnvironmentMap& environment) {
  const auto parsed = ParseWorkerEnv(environment);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(WorkerEnv, RoundTrip) {
  EXPECT_EQ(*ParseWorkerEnv(ToEnvironment(Sample())), Sample());
  EXPECT_EQ(*ParseWorkerEnv(ToEnvironment(WorkerEnv{})), WorkerEnv{});
}

TEST(WorkerEnv, RestartCountCanBeTheMaximum) {
  WorkerEnv w = Sample();
  w.restart_count = w.max_restarts = 1'000'000'000;
  EXPECT_EQ(*ParseWorkerEnv(ToEnvironment(w)), w);
}

TEST(WorkerEnv, LeaseIsOptional) {
  EXPECT_FALSE(ToEnvironment(WorkerEnv{}).contains("MTRUN_LEASE"));
  EnvironmentMap environment = ToEnvironment(Sample());
  EXPECT_EQ(environment.at("MTRUN_LEASE"), "9");
  environment.erase("MTRUN_LEASE");
  EXPECT_EQ(ParseWorkerEnv(environment)->lease, -1);
}

TEST(WorkerEnv, StoreIsNotTheAgents) {
  EXPECT_EQ(ToEnvironment(Sample()).at("TORCHELASTIC_USE_AGENT_STORE"), "False");
}

TEST(WorkerEnv, FourVariablesSetByHandSuffice) {
  const auto parsed =
      ParseWorkerEnv({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->rank, 1);
  EXPECT_EQ(parsed->role_world_size, 2);
  EXPECT_EQ(parsed->socket, "");
}

TEST(WorkerEnv, ErrorsNameTheVariableAndWhatIsAllowed) {
  EXPECT_THAT(Complaint({}), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(Complaint({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not set"));
  EnvironmentMap bad = ToEnvironment(Sample());
  bad["RANK"] = "8";
  EXPECT_THAT(Complaint(bad), HasSubstr("RANK=\"8\" is not a number from 0 to 7"));
  bad["RANK"] = "one";
  EXPECT_THAT(Complaint(bad), HasSubstr("RANK=\"one\""));
  bad = ToEnvironment(Sample());
  bad["MASTER_PORT"] = "70000";
  EXPECT_THAT(Complaint(bad), HasSubstr("from 0 to 65535"));
  bad = ToEnvironment(Sample());
  bad["MASTER_ADDR"] = "";
  EXPECT_THAT(Complaint(bad), HasSubstr("MASTER_ADDR is empty"));
  bad = ToEnvironment(Sample());
  bad["MTRUN_LEASE"] = "-1";
  EXPECT_THAT(Complaint(bad), HasSubstr("MTRUN_LEASE=\"-1\" is not a number from 0"));
}

TEST(WorkerEnv, IsLaunchedNeedsRankAndWorldSize) {
  EXPECT_TRUE(IsLaunched(ToEnvironment(Sample())));
  EXPECT_FALSE(IsLaunched({{"RANK", "0"}}));
}

TEST(WorkerEnv, CurrentEnvironmentReadsThisProcess) {
  setenv("MTRUN_WORKER_ENV_TEST", "a=b", 1);
  EXPECT_EQ(CurrentEnvironment().at("MTRUN_WORKER_ENV_TEST"), "a=b");
}

}  // namespace
}  // namespace mtrun
