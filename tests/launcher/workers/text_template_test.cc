#include "launcher/workers/text_template.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(TextTemplateTest, ReplacesNamesAndKeepsTheRest) {
  const std::map<std::string, std::string> values = {{"rank", "3"}, {"role_name", "w"}};
  EXPECT_EQ(FillTemplate("[${role_name}$rank]: ", values), "[w3]: ");
  EXPECT_EQ(FillTemplate("${rank}${rank}", values), "33");
  EXPECT_EQ(FillTemplate("$$rank costs $5, ${unknown} $unknown", values),
            "$rank costs $5, ${unknown} $unknown");
  EXPECT_EQ(FillTemplate("${rank", values), "${rank");
  EXPECT_EQ(FillTemplate("end$", values), "end$");
  EXPECT_EQ(FillTemplate("${}", values), "${}");
  EXPECT_EQ(FillTemplate("", values), "");
}

}  // namespace
}  // namespace mtrun::launcher
