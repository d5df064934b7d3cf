#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/options.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptionsTest, PageIsOnThisMachineAtPort8080UnlessSaidOtherwise) {
  const auto place = [](const std::string& text) {
    return Parse("--standalone --http " + text + " x")->http;
  };
  EXPECT_EQ(place("8081"), "127.0.0.1:8081");
  EXPECT_EQ(place(":8081"), "127.0.0.1:8081");
  EXPECT_EQ(place("node0"), "node0:8080");
  EXPECT_EQ(place("0.0.0.0:8443"), "0.0.0.0:8443");
  EXPECT_EQ(place("[::1]"), "[::1]:8080");
  EXPECT_EQ(place("127.0.0.1:0"), "127.0.0.1:0");
  EXPECT_EQ(Parse("x")->http, "");
  for (const char* wrong : {"80800", "node0:http", ":", "127.0.0.1:", "a/b"})
    EXPECT_THAT(ErrorOf(std::string("--http ") + wrong + " x"),
                AllOf(HasSubstr("--http: \""), HasSubstr("HOST:PORT, HOST (port 8080) or PORT")));
}

TEST(OptionsOutputTest, StreamsAreWrittenToFileAndConsoleUnlessRedirected) {
  const OutputPlan both;
  EXPECT_EQ(Parse("x")->OutputOf(0), both);
  EXPECT_EQ(Parse("-r 3 -t 3 x")->OutputOf(0), both);
  EXPECT_EQ(Parse("--redirects 1 x")->OutputOf(0), (OutputPlan{false, true}));
  const auto options = Parse("-r 0:3,11:2 --tee 11:2 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->OutputOf(0), (OutputPlan{false, false}));
  EXPECT_EQ(options->OutputOf(11), both);
  EXPECT_EQ(Parse("--log_dir /dev/null x")->OutputOf(0), both);
  EXPECT_THAT(ErrorOf("--tee 4 x"), HasSubstr("--tee"));
}

TEST(OptionsOutputTest, TheConsoleCanBeFiltered) {
  const auto options = Parse("--local-ranks-filter=0,12 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->OutputOf(12), OutputPlan{});
  EXPECT_EQ(options->OutputOf(1), (OutputPlan{false, false}));
  EXPECT_THAT(ErrorOf("--local_ranks_filter=a x"), HasSubstr("--local_ranks_filter"));
  EXPECT_THAT(Parse("--duplicate-stdout-filters=a,b,,c x")->out_filters, ElementsAre("a", "b,c"));
  EXPECT_THAT(Parse("x")->err_filters, testing::IsEmpty());
}

TEST(OptionsOutputTest, TheLinePrefixIsATemplate) {
  EXPECT_EQ(Parse("x")->prefix_template, "[${role_name}${local_rank}]:");
  const EnvironmentMap environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[rank${rank}]: "}};
  EXPECT_EQ(Parse("x", environment)->prefix_template, "[rank${rank}]: ");
  EXPECT_EQ(Parse("--log_line_prefix_template=${hostname} x", environment)->prefix_template, "${hostname}");
}

TEST(OptionsTest, AgentServesTheStoreUnlessRankZeroIsChosen) {
  EXPECT_TRUE(Parse("x")->agent_store());
  EXPECT_FALSE(Parse("--store rank0 x")->agent_store());
  EXPECT_FALSE(Parse("--rdzv_conf hold_port=false x")->agent_store());
  EXPECT_FALSE(Parse("--trainer cnnA")->agent_store());
  EXPECT_THAT(ErrorOf("--store nobody x"), HasSubstr("--store"));
  const EnvironmentMap disabled = {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}};
  EXPECT_FALSE(ParseOptions({"x"}, disabled, {})->agent_store());
  EXPECT_TRUE(ParseOptions({"--store=agent", "x"}, disabled, {})->agent_store());
}

TEST(OptionsOutputTest, PrefixSetsANameThatEndsInADigitApart) {
  EXPECT_EQ(Parse("x")->ConsolePrefix(), "[${role_name}${local_rank}]:");
  EXPECT_EQ(Parse("--trainer cnnA")->ConsolePrefix(), "[${role_name}${local_rank}]:");
  EXPECT_EQ(Parse("--trainer resnet18")->ConsolePrefix(), "[${role_name} ${local_rank}]:");
  EXPECT_EQ(Parse("--console plain --trainer resnet18")->ConsolePrefix(), "");
  EXPECT_EQ(Parse("--log_line_prefix_template ${rank}: --trainer resnet18")->ConsolePrefix(), "${rank}:");
}

TEST(OptionsTest, OutputOfASingleWorkerIsRawUnlessLinesAreRequested) {
  EXPECT_TRUE(Parse("x")->RawConsole());
  EXPECT_TRUE(Parse("--console plain x")->RawConsole());
  for (const char* line :
       {"--nproc_per_node 2 x", "--console prefix x", "--tee 3 x", "--log_line_prefix_template=[${rank}] x",
        "--nproc_per_node 2 --console plain x", "--trainer cnnA", "--console plain --trainer cnnA"})
    EXPECT_FALSE(Parse(line)->RawConsole()) << line;
}

TEST(OptionsTest, WarmInterpreterPreloadsTorch) {
  EXPECT_FALSE(Parse("x")->warm_python);
  EXPECT_THAT(Parse("--warm_python x")->preload, ElementsAre("torch"));
  EXPECT_THAT(Parse("--warm_python --preload torch,transformers x")->preload,
              ElementsAre("torch", "transformers"));
}

}  // namespace
}  // namespace mtrun::launcher
