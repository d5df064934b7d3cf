#include <signal.h>

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/options.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptionsFaultsTest, ShutdownTimeoutIsReadFromTorchrunsVariable) {
  const EnvironmentMap environment = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "5"}};
  EXPECT_EQ(Parse("x", environment)->shutdown_timeout, std::chrono::seconds(5));
  EXPECT_EQ(Parse("--shutdown_timeout 0.5 x", environment)->shutdown_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(Parse("--shutdown_timeout 0 x", environment)->shutdown_timeout, Duration::zero());
  EXPECT_THAT(ErrorOf("--shutdown_timeout -1 x"), HasSubstr("shutdown_timeout"));
  EXPECT_THAT(ErrorOf("x", {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "-1"}}),
              HasSubstr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT: \"-1\""));
}

/// mpirun sends SIGKILL 1 s after SIGTERM, whatever the flag says.
TEST(OptionsFaults, GraceUnderOpenMpiEndsBeforeMpirunKills) {
  const EnvironmentMap rank = {{"OMPI_COMM_WORLD_RANK", "0"}};
  for (const char* line : {"x", "--shutdown_timeout 5 x"}) {
    const auto options = Parse(line, rank);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->shutdown_timeout, std::chrono::milliseconds(800)) << line;
    EXPECT_THAT(options->notes, testing::Contains(HasSubstr("--shutdown_timeout is 800 ms instead of")));
  }
  const auto shorter = Parse("--shutdown_timeout 0.5 x", rank);
  EXPECT_EQ(shorter->shutdown_timeout, std::chrono::milliseconds(500));
  EXPECT_THAT(shorter->notes, testing::IsEmpty());
  const auto longer =
      Parse("x", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_MCA_odls_base_sigkill_timeout", "60"}});
  EXPECT_EQ(longer->shutdown_timeout, std::chrono::seconds(30));
}

TEST(OptionsFaultsTest, OutOfRangeTimesAreRefused) {
  const std::chrono::seconds most(100'000'000);
  EXPECT_EQ(Parse("--shutdown_timeout 1e8 x")->shutdown_timeout, most);
  EXPECT_EQ(Parse("--hang_timeout 1e8 --hang_notice 1e8 x")->hang_timeout, most);
  EXPECT_EQ(Parse("x", {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1e8"}})->shutdown_timeout, most);
  for (const char* name : {"shutdown_timeout", "hang_notice", "hang_timeout"}) {
    EXPECT_THAT(ErrorOf(std::string("--") + name + " 1e10 x"),
                AllOf(HasSubstr(name), HasSubstr("from 0 to 100000000")));
  }
  EXPECT_THAT(ErrorOf("x", {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1e10"}}),
              HasSubstr("TORCH_ELASTIC_SHUTDOWN_TIMEOUT: \"1e10\""));
}

TEST(OptionsFaultsTest, SignalsAreHandledOrForwarded) {
  EXPECT_EQ(Parse("x")->signals, DefaultSignals());
  const auto some = Parse("--signals-to-handle=SIGTERM,SIGUSR2 --signals_to_forward=usr1 x");
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT(some->signals.stop, ElementsAre(SIGUSR2, SIGTERM));
  EXPECT_THAT(some->signals.forward, ElementsAre(SIGUSR1));
  const auto defaults = Parse("--signals_to_forward SIGUSR1,SIGUSR2 x");
  EXPECT_THAT(defaults->signals.stop, ElementsAre(SIGHUP, SIGINT, SIGQUIT, SIGTERM));
  EXPECT_THAT(Parse("--signals_to_handle SIGTERM,SIGNONE x")->notes, ElementsAre(HasSubstr("\"SIGNONE\"")));
}

}  // namespace
}  // namespace mtrun::launcher
