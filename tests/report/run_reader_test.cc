#include "report/run_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::vector<int64_t> StepsOf(const RunRecord& run) {
  std::vector<int64_t> steps;
  for (const StepPoint& step : run.steps) steps.push_back(step.step);
  return steps;
}

std::string Step(int64_t step, double loss = 1) {
  return absl::StrCat(R"({"step":)", step, R"(,"epoch":1,"loss":)", loss,
                      R"(,"lr":0.1,"samples":4,"seconds":0.5})");
}

TEST(RunReader, RewoundStepsAreIgnored) {
  RunReader reader;
  for (const int64_t step : {0, 1, 2}) reader.AddMetrics(Step(step, 1));
  reader.AddMetrics(R"({"eval":1,"steps":3,"train_loss":1,"test_loss":2,"seconds":1})");
  reader.AddMetrics(R"({"rewind":1})");
  reader.AddMetrics(
      R"({"generation":2,"steps":1,"world":3,"members":[["a",2],["b",1]],"why":"c is lost","time":1e9})");
  for (const int64_t step : {1, 2}) reader.AddMetrics(Step(step, 5));
  reader.AddMetrics(
      R"({"regroup":2,"world":3,"steps":2,"assign":0.5,"connect":0.25,"state":0,"first_step":0.25})");
  const RunRecord run = reader.Take();
  EXPECT_THAT(StepsOf(run), ElementsAre(0, 1, 2));
  EXPECT_EQ(run.steps[1].loss, 5);
  EXPECT_TRUE(run.epochs.empty());
  ASSERT_EQ(run.generations.size(), 1u);
  const Generation& generation = run.generations[0];
  EXPECT_EQ(generation.number, 2u);
  EXPECT_EQ(generation.world, 3);
  EXPECT_EQ(generation.redone, 2);
  EXPECT_EQ(generation.why, "c is lost");
  EXPECT_EQ(generation.lost, 1.0);
  EXPECT_THAT(generation.members, ElementsAre(Pair("a", 2), Pair("b", 1)));
  EXPECT_EQ(run.unread_lines, 0);
}

TEST(RunReader, ValidationReplacesTheTest) {
  RunReader reader;
  reader.AddMetrics(R"({"data_wait":1.5,"steps":1})");
  reader.AddMetrics(
      R"({"eval":1,"steps":3,"train_loss":1,"val_loss":2,"train_accuracy":0.4,"val_accuracy":0.5,"seconds":1})");
  reader.AddResult(R"({"program":"cnnA","chosen_by_validation":true,"best_epoch":1,"tested_epoch":1})");
  const RunRecord run = reader.Take();
  EXPECT_EQ(run.unread_lines, 0);
  ASSERT_EQ(run.epochs.size(), 1u);
  EXPECT_EQ(run.epochs[0].test_loss, 2);
  EXPECT_EQ(run.epochs[0].test_accuracy, 0.5);
  EXPECT_STREQ(EvaluatedOn(run), "validation");
  EXPECT_TRUE(run.result->chosen_by_validation);
  EXPECT_EQ(run.result->tested_epoch, 1);
}

TEST(RunReader, LedgerGivesTheWorldOfEveryStep) {
  RunReader reader;
  reader.AddLedger(R"({"ledger":2,"run":"77"})");
  for (const auto& [step, generation, world] :
       std::vector<std::tuple<int, int, int>>{{0, 1, 2}, {1, 1, 2}, {2, 2, 1}, {2, 1, 2}, {3, 2, 1}}) {
    reader.AddLedger(
        absl::StrCat(R"({"step":)", step, R"(,"generation":)", generation, R"(,"world":)", world, "}"));
  }
  EXPECT_THAT(reader.Take().worlds,
              ElementsAre(Pair(0, 2), Pair(2, 1)));  // the late line of generation 1 is ignored
}

TEST(RunReader, MalformedLinesAreCountedAndSkipped) {
  RunReader reader;
  for (const char* line :
       {R"({"step":3,"lo)", "[]", "", R"({"later":1})", R"({"step":"x"})", R"({"step":-4})"})
    reader.AddMetrics(line);
  reader.AddMetrics(R"({"step":0,"loss":null,"lr":"odd","samples":1e99,"seconds":{}})");
  const RunRecord run = reader.Take();
  EXPECT_EQ(run.unread_lines, 6);
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_TRUE(std::isnan(run.steps[0].loss) && std::isnan(run.steps[0].seconds));
  EXPECT_EQ(run.steps[0].samples, 0);
}

TEST(RunReader, ResultWithWrongShapesIsReadWithoutThem) {
  RunReader reader;
  reader.AddResult(
      R"({"program":"cnnA","class_names":["a",7],"per_class":[{"recall":1},{"recall":"x"}],
          "confusion_rows_actual":[[1],[2,3,4],[5]],"best_epoch":1})");
  reader.AddCheckpoint(
      4, R"({"files":{"model.safetensors":{"bytes":10,"sha256":"ab"},"x":{"bytes":-5},"y":3}})");
  reader.AddMetrics(R"({"eval":1,"steps":4,"train_loss":1,"test_loss":2,"seconds":1})");
  const RunRecord run = reader.Take();
  ASSERT_TRUE(run.result);
  EXPECT_EQ(run.program, "cnnA");
  EXPECT_THAT(run.result->confusion, IsEmpty()) << "to fill it up may need more memory than there is";
  EXPECT_EQ(run.result->classes[1].images, 0);
  ASSERT_EQ(run.checkpoints.size(), 1u);
  EXPECT_EQ(run.checkpoints[0].bytes, 10);
  EXPECT_TRUE(run.checkpoints[0].best);
  reader.AddResult(R"({"per_class":{"a":1},"class_names":5,"confusion_rows_actual":3})");
  EXPECT_TRUE(reader.Take().result->confusion.empty());
}

TEST(RunReader, NotableImagesHaveKnownClassesAndPictures) {
  RunReader reader;
  reader.AddNotable(R"({"mistakes":[{"image":1,"label":0,"guess":1,"probability":0.5}]})");
  reader.AddResult(R"({"class_names":["cat","dog"],"per_class":[{},{}]})");
  reader.AddNotable(R"({"mistakes":[
      {"image":7,"label":0,"guess":1,"probability":0.9,"png":"iVBORw0KGgo="},
      {"image":8,"label":1,"guess":0,"probability":0.8,"png":"PHNjcmlwdD4="},
      {"image":9,"label":1,"guess":2,"probability":0.7},{"label":-1,"guess":0},{"label":"0","guess":0},5],
      "uncertain":{"image":1}})");
  const RunRecord run = reader.Take();
  EXPECT_THAT(run.uncertain, IsEmpty());
  ASSERT_THAT(run.mistakes, SizeIs(2)) << "without a result the names of classes are not known";
  EXPECT_EQ(run.mistakes[0].image, 7);
  EXPECT_EQ(run.mistakes[0].guess, 1u);
  EXPECT_EQ(run.mistakes[0].png, "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(run.mistakes[1].png, "") << "it is no PNG";
}

TEST(RunReader, MatrixOfManyClassesIsReadOnlyIfTheFileHasIt) {
  std::string names, figures;
  for (int c = 0; c < 30000; ++c) {  // their matrix would have 7 GB
    absl::StrAppend(&names, c == 0 ? "" : ",", "1");
    absl::StrAppend(&figures, c == 0 ? "" : ",", "{}");
  }
  RunReader reader;
  reader.AddResult(absl::StrCat(R"({"per_class":[)", figures, R"(],"class_names":[)", names,
                                R"(],"confusion_rows_actual":[[1]]})"));
  const RunRecord run = reader.Take();
  EXPECT_THAT(run.result->classes, SizeIs(30000));
  EXPECT_THAT(run.result->confusion, IsEmpty());
}

TEST(RunReader, SettingsAndEnvironmentAreTables) {
  RunReader reader;
  reader.AddSettings("cnnA:\n  data: \"a: b\"\n  seed: 3\n");
  reader.AddEnvironment(R"({"format":"x","host":"node1","cores":2})");
  const RunRecord run = reader.Take();
  EXPECT_EQ(run.program, "cnnA");
  EXPECT_THAT(run.settings, ElementsAre(Pair("data", "a: b"), Pair("seed", "3")));
  EXPECT_THAT(run.environment, ElementsAre(Pair("cores", "2"), Pair("host", "node1")));
}

TEST(RunReader, SecondsAreHumanReadable) {
  EXPECT_EQ(SecondsText(0.0123), "12 ms");
  EXPECT_EQ(SecondsText(12.34), "12.3 s");
  EXPECT_EQ(SecondsText(125), "2 min 05 s");
  EXPECT_EQ(SecondsText(9000), "2.5 h");
  EXPECT_EQ(SecondsText(NAN), "?");
}

}  // namespace
}  // namespace mtrun::report
