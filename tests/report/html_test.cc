#include "report/html.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::report::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(Escape("<script>alert('x & \"y\"')</script>"),
            "&lt;script&gt;alert(&#39;x &amp; &quot;y&quot;&#39;)&lt;/script&gt;");
  EXPECT_EQ(Escape(std::string("a\x01"
                               "b\xff",
                               4)),
            "a b\xef\xbf\xbd");
}

TEST(Html, DataCannotCloseTheirElement) {
  const std::string text = Embed({{"name", "</script><!--\xe2\x80\xa8"}});
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_EQ(nlohmann::json::parse(text)["name"], "</script><!--\xe2\x80\xa8");
}

TEST(Html, NumbersAreHumanReadable) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(-1234567), "-1,234,567");
  EXPECT_EQ(Grouped(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Percent(0.85), "85.00 %");
  EXPECT_EQ(Percent(NAN), "?");
  EXPECT_EQ(Base64("abc"), "YWJj");
}

TEST(Html, TableWithoutRowsIsEmpty) {
  EXPECT_EQ(TableOf({{"a"}}, {}), "");
  EXPECT_THAT(TableOf({{"a"}, {"n", true}}, {{{"<x>"}, {"1", true, false, "best"}}}),
              HasSubstr("<td>&lt;x&gt;</td><td class=\"n\">1 <span class=\"tag\">best</span></td>"));
}

TEST(Html, EveryTextOfATableIsEscaped) {
  const std::string text = "<i>&\"'", escaped = Escape(text);
  EXPECT_EQ(TableOf({{text}}, {{{text, false, false, text}, {text, true}, {text, false, true}}}),
            "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>" + escaped +
                "</th></tr></thead><tbody><tr><td>" + escaped + " <span class=\"tag\">" + escaped +
                "</span></td><td class=\"n\">" + escaped + "</td><td class=\"mono\">" + escaped +
                "</td></tr></tbody></table></div>\n");
  EXPECT_EQ(Pairs({{text, text}}),
            "<dl class=\"pairs two\"><dt>" + escaped + "</dt><dd class=\"mono\">" + escaped + "</dd></dl>\n");
}

}  // namespace
}  // namespace mtrun::report::html
