#include "launcher/workers/launch_plan.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(FlagVariablesTest, HaveTheValuesOfFlags) {
  Options options;
  options.workers = 4;
  options.job.max_nodes = 2;
  options.shutdown_timeout = std::chrono::milliseconds(2500);
  options.store = "rank0";
  EXPECT_THAT(FlagVariables(options),
              UnorderedElementsAre(Pair("MTRUN_CONFIGURED_WORLD", "8"), Pair("MTRUN_SHUTDOWN_TIMEOUT", "2.5"),
                                   Pair("TORCHELASTIC_USE_AGENT_STORE", "False"),
                                   Pair("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")));
  options.port_range = {4000, 4100};
  EXPECT_EQ(FlagVariables(options).at("MTRUN_PORT_RANGE"), "4000-4100");
  options.signals.stop_text = "SIGTERM";
  EXPECT_EQ(FlagVariables(options).at("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM");
}

TEST(FlagVariablesTest, AgentServesTheStoreOfProgramsButNotOfTrainers) {
  Options options;
  EXPECT_EQ(FlagVariables(options).at("TORCHELASTIC_USE_AGENT_STORE"), "True");
  options.entry.trainer = "cnnA";
  EXPECT_EQ(FlagVariables(options).at("TORCHELASTIC_USE_AGENT_STORE"), "False");
}

}  // namespace
}  // namespace mtrun::launcher
