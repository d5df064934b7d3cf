#include "launcher/ssh/failure_boxes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kRule(80, '=');

/// Returns everything that is shown of these lines.
std::vector<std::string> Shown(FailureBoxes& boxes, const std::vector<std::string>& lines) {
  std::vector<std::string> shown;
  for (const std::string& line : lines) {
    for (std::string& now : boxes.Feed(line)) shown.push_back(std::move(now));
  }
  return shown;
}

TEST(FailureBoxesTest, IdenticalBoxIsShownOnce) {
  const auto shown = std::make_shared<std::set<std::string>>();
  FailureBoxes one(shown), two(shown), three(shown);
  const std::vector<std::string> box = {kRule, "x.py FAILED", "---", "  rank : 1", kRule};
  std::vector<std::string> lines = box;
  lines.push_back("more");
  EXPECT_THAT(Shown(one, lines), testing::ElementsAreArray(lines));
  EXPECT_THAT(Shown(two, lines), ElementsAre("more"));
  EXPECT_THAT(Shown(three, {kRule, "x.py FAILED", "  rank : 2", kRule}),
              ElementsAre(kRule, "x.py FAILED", "  rank : 2", kRule));
}

TEST(FailureBoxesTest, BoxOfAStoppedJobIsShownOnce) {
  const auto shown = std::make_shared<std::set<std::string>>();
  FailureBoxes one(shown), two(shown);
  const std::vector<std::string> box = {kRule, "x.py STOPPED", "---", "  reason : stopped by SIGTERM", kRule};
  EXPECT_THAT(Shown(one, box), testing::ElementsAreArray(box));
  EXPECT_THAT(Shown(two, box), IsEmpty());
}

TEST(FailureBoxesTest, OtherLinesAreUnchanged) {
  FailureBoxes boxes(std::make_shared<std::set<std::string>>());
  EXPECT_THAT(Shown(boxes, {"a", "====", kRule, "b", kRule}), ElementsAre("a", "====", kRule, "b"));
  EXPECT_THAT(Shown(boxes, {kRule}), ElementsAre(kRule));
  EXPECT_THAT(boxes.Flush(), ElementsAre(kRule));
  EXPECT_THAT(boxes.Flush(), IsEmpty());
  // A box that never ends.
  Shown(boxes, {kRule, "x FAILED"});
  const std::vector<std::string> many(1000, "line");
  EXPECT_EQ(Shown(boxes, many).size(), 1002u);
}

}  // namespace
}  // namespace mtrun::launcher
