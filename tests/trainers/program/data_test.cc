#include "trainers/program/data.h"

#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "datasets/packed/packed_writer.h"
#include "tests/support/program.h"

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Labels = std::vector<int64_t>;

class DataTest : public ::testing::Test {
 protected:
  /// Writes a set of one-pixel images whose value is their number.
  std::string Write(const std::string& name, const std::map<std::string, Labels>& splits) {
    datasets::PackedShape shape{.height = 1, .width = 1, .classes = {"a", "b", "c"}};
    for (const auto& [split, labels] : splits) shape.splits[split] = static_cast<int64_t>(labels.size());
    auto writer = datasets::PackedWriter::Create(folder_.File(name), shape, {});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const auto& [split, labels] : splits) {
      std::vector<uint8_t> pixels;
      for (size_t i = 0; i < labels.size(); ++i) pixels.insert(pixels.end(), 3, static_cast<uint8_t>(i));
      EXPECT_TRUE((*writer)->Put(split, 0, labels, pixels).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return folder_.File(name);
  }

  const support::TemporaryFolder folder_;
};

TEST_F(DataTest, ValidationSplitIsEvaluatedAndTestSplitIsForTheEnd) {
  const auto data = OpenData(Write("set", {{"train", {0, 1, 2}}, {"val", {0, 1}}, {"test", {2}}}), true);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 3);
  EXPECT_EQ(data->test.size(), 2);
  ASSERT_TRUE(data->final_test);
  EXPECT_EQ(data->final_test->size(), 1);
}

TEST_F(DataTest, OnlySplitBesidesTrainIsEvaluated) {
  for (const char* split : {"test", "val"}) {
    const auto data = OpenData(Write(split, {{"train", {0, 1, 2}}, {split, {0, 1}}}), true);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->test.size(), 2);
    EXPECT_FALSE(data->final_test);
  }
}

TEST_F(DataTest, TrainingImagesServeIfNoOtherSplitIsRequired) {
  const std::string path = Write("set", {{"train", {0, 1, 2}}});
  EXPECT_THAT(std::string(OpenData(path, true).status().message()), HasSubstr("no split \"test\""));
  const auto data = OpenData(path, false);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->test.size(), 3);
}

TEST_F(DataTest, ArrivingSetHasItsSplitsButNoImages) {
  const std::string path = Write("set", {{"train", {0, 1, 2}}, {"val", {0, 1}}, {"test", {2}}});
  for (const char* split : {"train", "val", "test"}) std::filesystem::remove_all(path + "/" + split);
  EXPECT_FALSE(OpenData(path, true).ok());
  auto data = OpenArrivingData(path, true);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(data->arrives);
  EXPECT_EQ(data->shape().height, 1);
  std::vector<std::string> names;
  for (const datasets::PackedSplit* split : data->splits()) {
    names.push_back(split->name());
    EXPECT_FALSE(split->has(0));
  }
  EXPECT_THAT(names, ElementsAre("train", "val", "test"));

  auto alone = OpenArrivingData(Write("alone", {{"train", {0, 1, 2}}}), false);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->splits()[1]->name(), "train") << "evaluated for want of others";
  EXPECT_TRUE(absl::IsNotFound(OpenArrivingData(folder_.File("alone"), true).status()));
}

TEST_F(DataTest, ShareOfEachClassIsHeldOut) {
  Labels labels(100, 0);
  labels.insert(labels.end(), 40, 1);
  labels.insert(labels.end(), 2, 2);
  const std::string path = Write("set", {{"train", labels}, {"test", {0}}});
  const auto data = OpenData(path, true, 0.1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->test.size(), 10 + 4 + 1) << "one of the class of two";
  EXPECT_EQ(data->train.size(), 142 - 15);
  ASSERT_TRUE(data->final_test);
  std::map<int64_t, int> of_class;
  for (int64_t i = 0; i < data->test.size(); ++i) ++of_class[data->test.label(i)];
  EXPECT_EQ(of_class, (std::map<int64_t, int>{{0, 10}, {1, 4}, {2, 1}}));
}

TEST_F(DataTest, HeldOutImagesAreNotTrainedOn) {
  Labels labels;
  for (int i = 0; i < 60; ++i) labels.push_back(i % 3);
  const std::string path = Write("set", {{"train", labels}, {"test", {0}}});
  const auto data = OpenData(path, true, 0.25);
  ASSERT_TRUE(data.ok()) << data.status();
  std::map<int, int> seen;
  for (const auto* split : {&data->train, &data->test}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      ++seen[split->image(i)[0]];
      EXPECT_EQ(split->label(i), split->image(i)[0] % 3) << "its own label";
    }
  }
  EXPECT_EQ(seen.size(), 60u);
  for (const auto& [image, times] : seen) EXPECT_EQ(times, 1) << image;
  const auto whole = datasets::PackedSplit::Open(path, "train");
  const Shares shares = KeepBack(*whole, 0.25), again = KeepBack(*whole, 0.25);
  EXPECT_EQ(shares.kept_back, again.kept_back);
}

TEST_F(DataTest, TooFewImagesForAShareIsAnError) {
  EXPECT_THAT(
      std::string(OpenData(Write("set", {{"train", {0, 1}}, {"test", {0}}}), true, 0.2).status().message()),
      HasSubstr("--validation_share 0.2"));
}

TEST_F(DataTest, EvaluationUsesTheTestSplit) {
  EXPECT_EQ(OpenTest(Write("both", {{"train", {0}}, {"val", {0, 1}}, {"test", {2}}}))->size(), 1);
  EXPECT_EQ(OpenTest(Write("val", {{"train", {0}}, {"val", {0, 1}}}))->size(), 2);
  EXPECT_FALSE(OpenTest(Write("none", {{"train", {0}}})).ok());
}

}  // namespace
}  // namespace mtrun::trainers
