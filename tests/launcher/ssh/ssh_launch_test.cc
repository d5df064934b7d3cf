#include "launcher/ssh/ssh_launch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const SshSurroundings kHere = {.environment = {{"HOME", "/home/me"},
                                               {"A", "1"},
                                               {"PET_MAX_RESTARTS", "3"},
                                               {"VIRTUAL_ENV", "/venv"},
                                               {"MTRUN_TOKEN", "secret"}},
                               .folder = "/work",
                               .mtrun = "/opt/bin/mtrun",
                               .random = 0x2a};

absl::StatusOr<SshLaunch> Made(const std::string& line, const std::string& hostfile = "") {
  const auto options = Parse(line);
  EXPECT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->act, Options::Act::kSsh);
  return MakeSshLaunch(*options, hostfile, {"--the", "args"}, kHere);
}

std::string ErrorFrom(const std::string& line, const std::string& hostfile = "") {
  const auto launch = Made(line, hostfile);
  EXPECT_EQ(launch.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(launch.status().message());
}

/// Returns "nnodes=2" and so on for each setting with a value.
std::vector<std::string> SettingsOf(const SshLaunch& launch, size_t host) {
  std::vector<std::string> texts;
  for (const DerivedSetting& setting : OrderFor(launch, host, "10.0.0.1").settings) {
    if (!setting.value.empty()) texts.push_back(setting.name + "=" + setting.value);
  }
  return texts;
}

TEST(SshLaunchTest, HostsBecomeNodesAndTheFirstTheEndpoint) {
  const auto launch = Made("--hosts a,b:8 x");
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->least, 2);
  EXPECT_THAT(SettingsOf(*launch, 0), UnorderedElementsAre("nnodes=2", "rdzv_id=ssh-000000000000002a",
                                                           "node_rank=0", "rdzv_endpoint=10.0.0.1:15042"));
  EXPECT_THAT(SettingsOf(*launch, 1),
              UnorderedElementsAre("nnodes=2", "rdzv_id=ssh-000000000000002a", "node_rank=1",
                                   "rdzv_endpoint=10.0.0.1:15042", "nproc_per_node=8"));
}

TEST(SshLaunchTest, GivenSettingsOverrideDerivedOnes) {
  EXPECT_THAT(SettingsOf(*Made("--hosts a,b,c --nnodes 1:3 --rdzv_endpoint c:1 --rdzv_id run x"), 0),
              UnorderedElementsAre("nnodes=1:3", "node_rank=0"));
  EXPECT_THAT(SettingsOf(*Made("--hosts a,b --master_port 1234 --rdzv_id r x"), 0),
              UnorderedElementsAre("nnodes=2", "node_rank=0", "rdzv_endpoint=10.0.0.1:1234"));
  EXPECT_THAT(SettingsOf(*Made("--hosts a --rdzv_id r x"), 0),
              UnorderedElementsAre("nnodes=1", "node_rank=0"));
  EXPECT_THAT(ErrorFrom("--hosts a,b --nnodes 3 x"), HasSubstr("2 hosts"));
}

TEST(SshLaunchTest, HostsGetUnchangedArguments) {
  const Order order = OrderFor(*Made("--hosts a --ssh_folder /there x"), 0, "");
  EXPECT_THAT(order.args, ElementsAre("--the", "args"));
  EXPECT_EQ(order.folder, "/there");
  EXPECT_EQ(OrderFor(*Made("--hosts a x"), 0, "").folder, "/work");
}

/// Hosts start no others, whatever their arguments, variables and files say, and use the token that they get.
TEST(SshLaunchTest, HostRunsOnlyItsPart) {
  const auto launch = Made("--hosts a,b:3 --token_file /t x");
  const std::vector<std::string> line = {"--hosts", "a,b:3", "--nproc_per_node", "2", "--token_file",
                                         "/t",      "x"};
  const auto first =
      ParseOptions(line, {{"PET_HOSTFILE", "f"}}, {}, OrderFor(*launch, 0, "10.0.0.1").settings);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->act, Options::Act::kRun);
  EXPECT_EQ(first->token_file, "");
  EXPECT_EQ(first->workers, 2);
  EXPECT_EQ(first->job.max_nodes, 2);
  EXPECT_EQ(first->node_rank, 0);
  EXPECT_EQ(first->endpoint, "10.0.0.1:15042");
  const auto second = ParseOptions(line, {}, {}, OrderFor(*launch, 1, "10.0.0.1").settings);
  EXPECT_EQ(second->workers, 3);
}

TEST(SshLaunchTest, ExportedVariablesAreSent) {
  EXPECT_THAT(Made("--hosts a --export A,B=x,C=y=z,D= x")->order.environment,
              UnorderedElementsAre(std::pair("A", "1"), std::pair("B", "x"), std::pair("C", "y=z"),
                                   std::pair("D", ""), std::pair("PET_MAX_RESTARTS", "3"),
                                   std::pair("VIRTUAL_ENV", "/venv")));
  EXPECT_THAT(ErrorFrom("--hosts a --export Z x"), HasSubstr("not set here"));
  for (const char* bad : {"1A=x", "A-B=x", "=x", "MTRUN_TOKEN"})
    EXPECT_THAT(ErrorFrom(std::string("--hosts a --export ") + bad + " x"), HasSubstr("--export")) << bad;
}

TEST(SshLaunchTest, SshProgramCanBeChosen) {
  const auto launch = Made("--hosts a --ssh /usr/bin/ssh x");
  EXPECT_THAT(launch->ssh, ElementsAre("/usr/bin/ssh"));
  EXPECT_EQ(launch->mtrun.path, "/opt/bin/mtrun");
  EXPECT_FALSE(launch->mtrun.given);
  EXPECT_TRUE(Made("--hosts a --ssh_mtrun /m x")->mtrun.given);
  EXPECT_THAT(ErrorFrom("--hosts a --ssh 'x x"), HasSubstr("--ssh"));
}

TEST(SshLaunchTest, ErrorNamesTheFlag) {
  EXPECT_THAT(ErrorFrom("--hosts -oProxyCommand=x x"), HasSubstr("--hosts"));
  EXPECT_THAT(ErrorFrom("--hostfile f x", "a\nb slots=x\n"), HasSubstr("--hostfile f: line 2"));
  EXPECT_EQ(Made("--hostfile f x", "a\nb slots=2\n")->hosts.size(), 2u);
}

}  // namespace
}  // namespace mtrun::launcher
