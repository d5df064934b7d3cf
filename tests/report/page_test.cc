#include "report/page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/read_run.h"
#include "tests/support/program.h"

namespace mtrun::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunRecord Old() { return ReadRun(support::TestFile("testdata/formats/0.1.0/run")).value(); }

std::vector<std::string> Ids(const nlohmann::ordered_json& charts) {
  std::vector<std::string> ids;
  for (const auto& chart : charts) ids.push_back(chart["id"]);
  return ids;
}

TEST(Page, ContainsTheRunsContent) {
  const std::string page = Page({Old()}, "today");
  for (const char* part :
       {"cnnA run", "50.00 %", "Confusion matrix", "Timeline", "step_10", "<dt>momentum</dt>",
        "learning_rate", "Content-Security-Policy", "default-src 'none'"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, Not(HasSubstr("not complete")));
}

TEST(Page, LoadsNothingFromOtherSites) {
  const std::string page = Page({Old()}, "today");
  for (const char* part : {"src=\"http", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "<link"})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
}

TEST(Page, RunTextIsEscaped) {
  RunRecord run = Old();
  run.name = "</title><script>alert(1)</script>";
  run.settings.emplace_back("data", "<img src=x onerror=alert(2)>");
  run.generations[0].why = "</script><script>alert(3)</script>";
  run.generations[0].members = {{"<b>host</b>", 2}};
  run.result->classes[0].name = "\"><script>alert(4)</script>";
  const std::string page = Page({run}, "today");
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script><")));
  for (const char* part : {"<script>alert", "<img src=x", "<b>host"}) EXPECT_THAT(page, Not(HasSubstr(part)));
}

TEST(Page, ChartsMarkMembershipChanges) {
  const auto charts = ChartsOf({Old()});
  EXPECT_THAT(Ids(charts), ElementsAre("loss", "accuracy", "rate", "throughput", "world"));
  EXPECT_EQ(charts[0]["marks"][0][0], 3);
  EXPECT_EQ(charts[0]["series"][0]["points"].size(), 10u);
  EXPECT_EQ(charts[4]["series"][0]["points"], nlohmann::ordered_json::parse("[[0,2],[3,1],[9,1]]"));
}

TEST(Page, LabelsNameTheSplitOfAValue) {
  RunRecord run = Old();
  for (EpochPoint& epoch : run.epochs) epoch.validation = true;
  run.result->chosen_by_validation = true;
  run.result->tested_epoch = run.result->best_epoch = 2;
  EXPECT_EQ(ChartsOf({run})[0]["series"][1]["name"], "validation");
  const std::string page = Page({run}, "today");
  for (const char* part : {"validation loss", "validation accuracy", "test accuracy, of epoch 2",
                           "best by validation, in epoch 2"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
}

TEST(Page, ClassWithoutTestImagesHasNoFigures) {
  RunRecord run = Old();
  run.result->classes = {{.name = "cat", .precision = 1, .recall = 0.5, .f1 = 0.66, .images = 2},
                         {.name = "dog"}};
  run.result->confusion = {{1, 1}, {0, 0}};
  const std::string page = Page({run}, "today");
  EXPECT_THAT(page, HasSubstr("no images"));
  EXPECT_THAT(page, Not(HasSubstr(">0.00 %<")));
}

TEST(Page, MistakesAreShownWithBothClasses) {
  RunRecord run = Old();
  EXPECT_THAT(Page({run}, "today"), Not(HasSubstr("Most confident mistakes")));
  run.result->classes = {{.name = "cat"}, {.name = "<dog>"}};
  run.result->confusion = {{1, 1}, {0, 0}};
  run.mistakes = {{.image = 1234, .label = 0, .guess = 1, .probability = 0.987, .png = "\x89PNG"}};
  run.uncertain = {{.image = 5, .label = 0, .guess = 0, .probability = 0.51}};
  const std::string page = Page({run}, "today");
  for (const char* part :
       {"Most confident mistakes", "98.70 % <b>&lt;dog&gt;</b>", "but is <b>cat</b>", "image 1,234",
        "src=\"data:image/png;base64,iVBORw==\"", "Least certain images", "no picture", "which is right"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
  EXPECT_THAT(page, Not(HasSubstr("<dog>")));
}

TEST(Page, SeveralRunsAreOverlaid) {
  RunRecord other = Old();
  other.name = "other";
  const auto charts = ChartsOf({Old(), other});
  EXPECT_EQ(charts[0]["series"].size(), 4u);
  EXPECT_EQ(charts[0]["series"][2]["name"], "other train");
  EXPECT_THAT(Page({Old(), other}, "today"), HasSubstr("Details of other"));
}

TEST(Page, RunWithoutStepsHasAPage) {
  RunRecord run;
  run.name = "new";
  const std::string page = Page({run}, "today");
  EXPECT_THAT(page, HasSubstr("not complete"));
}

TEST(Page, WorkersHaveTheirOwnChart) {
  RunRecord run = Old();
  run.workers = {
      {.steps = 5, .compute = {0.01, 0.02}, .wait = {0.01, 0}, .data = {0, 0.001}, .straggler = 1}};
  const auto charts = ChartsOf({run});
  EXPECT_EQ(charts[5]["series"][1]["points"], nlohmann::ordered_json::parse("[[5,21.0]]"));
  EXPECT_THAT(Page({run}, "today"), HasSubstr("for at least a minute: rank 1."));
}

}  // namespace
}  // namespace mtrun::report
