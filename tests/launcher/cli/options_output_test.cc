#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/options.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptionsOutputTest, StreamsGoToFileAndConsoleUnlessRedirected) {
  const OutputPlan both;
  EXPECT_EQ(Parse("x")->OutputOf(0), both);
  EXPECT_EQ(Parse("-r 3 -t 3 x")->OutputOf(0), both);
  EXPECT_EQ(Parse("--redirects 1 x")->OutputOf(0), (OutputPlan{{true, false}, {true, true}}));
  const auto options = Parse("-r 0:3,11:2 --tee 11:2 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->OutputOf(0), (OutputPlan{{true, false}, {true, false}}));
  EXPECT_EQ(options->OutputOf(11), both);
  EXPECT_EQ(Parse("--log_dir /dev/null x")->OutputOf(0), (OutputPlan{{false, true}, {false, true}}));
  EXPECT_THAT(ErrorOf("--tee 4 x"), HasSubstr("--tee"));
}

TEST(OptionsOutputTest, TheConsoleCanBeFiltered) {
  const auto options = Parse("--local-ranks-filter=0,12 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->OutputOf(12), OutputPlan{});
  EXPECT_EQ(options->OutputOf(1), (OutputPlan{{true, false}, {true, false}}));
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

}  // namespace
}  // namespace mtrun::launcher
