// Requests to mtrun that run no program.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/option_table.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(QuestionsTest, HelpNamesEveryFlag) {
  EXPECT_EQ(Parse("--help")->act, Options::Act::kHelp);
  EXPECT_EQ(Parse("--version x")->act, Options::Act::kVersion);
  EXPECT_EQ(Parse("--print-completion zsh")->completion_shell, "zsh");
  EXPECT_THAT(Parse("--status node1")->asked, ElementsAre("node1:29400"));
  EXPECT_EQ(Parse("--status=node1:1 --json")->act, Options::Act::kStatus);
  for (const SettingSpec& spec : OptionTable()) EXPECT_THAT(HelpText(), HasSubstr("--" + spec.name));
}

TEST(QuestionsTest, PortAloneIsOfThisMachine) {
  for (const char* line : {"--status 29401", "--status :29401", "--top 29401", "--stop :29401",
                           "--doctor 29401", "--evict node3 29401"})
    EXPECT_THAT(Parse(line)->asked, ElementsAre("127.0.0.1:29401")) << line;
  EXPECT_THAT(Parse("--status 29401,node2")->asked, ElementsAre("127.0.0.1:29401", "node2:29400"));
  EXPECT_THAT(ErrorOf("--status 70000"), HasSubstr("0 to 65535"));
}

TEST(QuestionsTest, RequestsUseTheEnvironmentsSettings) {
  const EnvironmentMap environment = {{"PET_TOKEN_FILE", "/etc/site.token"},
                                      {"PET_RDZV_ID", "run7"},
                                      {"PET_LOCAL_ADDR", "10.0.0.1"},
                                      {"PET_RDZV_CONF", "join_timeout=3,weak_token=1"}};
  for (const char* line : {"--http_passwords", "--doctor", "--status node1", "--drain node3 node1"}) {
    const auto options = Parse(line, environment);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->token_file, "/etc/site.token") << line;
    EXPECT_EQ(options->job.job_id, "run7");
    EXPECT_EQ(options->local_addr, "10.0.0.1");
    EXPECT_TRUE(options->weak_token);
  }
  EXPECT_EQ(Parse("--http_passwords --token_file /mine", environment)->token_file, "/mine");
  EXPECT_EQ(Parse("--version", {{"PET_NNODES", "many"}})->act, Options::Act::kVersion);
}

TEST(QuestionsTest, DoctorChecksForAsManyNodesAsTheJobHas) {
  EXPECT_EQ(Parse("--doctor localhost:29400 --nnodes 1:4")->job.max_nodes, 4);
  EXPECT_EQ(Parse("--doctor localhost:29400")->job.max_nodes, 1);
  EXPECT_THAT(ErrorOf("--doctor --nnodes 4:1"), HasSubstr("--nnodes"));
}

TEST(QuestionsTest, EvictionNamesANodeAndTheEndpoint) {
  for (const char* line : {"--evict node3 node1", "--rdzv_id run7 --insecure --evict=node3 node1:29400",
                           "--evict node3 node1 --insecure --rdzv-id run7"}) {
    const auto options = Parse(line);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->act, Options::Act::kEvict);
    EXPECT_EQ(options->asked_node, "node3");
    EXPECT_THAT(options->asked, ElementsAre("node1:29400"));
    const bool more = std::string(line).find("run7") != std::string::npos;
    EXPECT_EQ(options->job.job_id, more ? "run7" : "");
    EXPECT_EQ(options->insecure, more);
  }
  EXPECT_THAT(Parse("--evict node3 node1:1,node2")->asked, ElementsAre("node1:1", "node2:29400"));
  EXPECT_THAT(ErrorOf("--evict node3"),
              AllOf(HasSubstr("--evict node3 needs an ENDPOINT"), HasSubstr("HOST:PORT")));
  EXPECT_THAT(ErrorOf("--evict node3 node1:x"), AllOf(HasSubstr("--evict"), HasSubstr("node1:x")));
  EXPECT_THAT(ErrorOf("--evict node3 node1 prog"), HasSubstr("\"prog\" would not be run"));
  EXPECT_THAT(ErrorOf("--evict node3 node1 --nodes"), HasSubstr("--nodes"));
  EXPECT_THAT(ErrorOf("--status node1 --evict node3 node1"), HasSubstr("two questions"));
  EXPECT_THAT(ErrorOf("--json --evict node3 node1"), HasSubstr("--json goes with --status"));
}

TEST(QuestionsTest, ControlCallsNameTheirEndpoints) {
  const auto drain = Parse("--drain node3 node1 --rdzv_id run7");
  ASSERT_TRUE(drain.ok()) << drain.status();
  EXPECT_EQ(drain->act, Options::Act::kDrain);
  EXPECT_EQ(drain->asked_node, "node3");
  EXPECT_EQ(drain->job.job_id, "run7");
  const auto stop = Parse("--stop node1:1,node2 --checkpoint");
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_EQ(stop->act, Options::Act::kStop);
  EXPECT_TRUE(stop->checkpoint);
  EXPECT_THAT(stop->asked, ElementsAre("node1:1", "node2:29400"));
  const auto logs = Parse("--logs 3 node1 --follow");
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_EQ(logs->act, Options::Act::kLogs);
  EXPECT_EQ(logs->asked_rank, 3);
  EXPECT_TRUE(logs->follow);
  EXPECT_THAT(ErrorOf("--logs folder prog"), HasSubstr("--logs"));
  EXPECT_THAT(ErrorOf("--follow prog"), HasSubstr("--follow goes with --logs RANK"));
  EXPECT_TRUE(Parse("--status node1 --watch")->watch);
  EXPECT_THAT(ErrorOf("--drain node3"), HasSubstr("--drain node3 needs an ENDPOINT"));
  EXPECT_THAT(ErrorOf("--stop node1 prog"), HasSubstr("--stop only asks"));
  EXPECT_THAT(ErrorOf("--drain node3 node1 --stop node1"), HasSubstr("two questions"));
  EXPECT_THAT(ErrorOf("--watch prog"), HasSubstr("--watch goes with --status"));
  EXPECT_THAT(ErrorOf("--drain node3 node1 --checkpoint"), HasSubstr("--checkpoint goes with --stop"));
  EXPECT_THAT(Parse("--status node1,node2:2")->asked, ElementsAre("node1:29400", "node2:2"));
  EXPECT_THAT(Parse("--top node1,node2:2")->asked, ElementsAre("node1:29400", "node2:2"));
}

TEST(QuestionsTest, DoctorAcceptsAnEndpointAndSettings) {
  const auto alone = Parse("--doctor");
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->act, Options::Act::kDoctor);
  EXPECT_THAT(alone->asked, ElementsAre());
  for (const char* line :
       {"--doctor node1 --insecure --log_dir /l --local_addr eth0 --port_range 5000-5009",
        "--insecure --log_dir /l --local_addr eth0 --port_range 5000-5009 --doctor node1"}) {
    const auto options = Parse(line);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->act, Options::Act::kDoctor);
    EXPECT_THAT(options->asked, ElementsAre("node1:29400"));
    EXPECT_TRUE(options->insecure);
    EXPECT_EQ(options->log_dir, "/l");
    EXPECT_EQ(options->local_addr, "eth0");
    EXPECT_EQ(options->port_range, (PortRange{5000, 5009}));
  }
  EXPECT_THAT(Parse("--doctor node1:1,[fd00::1]:2")->asked, ElementsAre("node1:1", "[fd00::1]:2"));
  EXPECT_THAT(ErrorOf("--doctor node1 prog"), HasSubstr("--doctor only asks"));
  EXPECT_THAT(ErrorOf("--doctor node1:x"), AllOf(HasSubstr("--doctor"), HasSubstr("node1:x")));
  EXPECT_THAT(ErrorOf("--doctor --port_range 9-1"), HasSubstr("--port_range"));
  EXPECT_THAT(ErrorOf("--doctor --status node1"), HasSubstr("two questions"));
}

}  // namespace
}  // namespace mtrun::launcher
