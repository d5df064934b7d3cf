#include "trainers/checkpoints/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::checkpoints {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunState Example() {
  RunState state;
  state.run = 0x1234567890abcdef;
  state.position = {.generation = 3, .steps = 1200, .evaluated = true};
  state.lineage = {{1, 0}, {3, 900}};
  state.identity = {{"program", "cnnA"}, {"batch_size", "16"}};
  state.progress = {{"samples", 76800}, {"sums", {{"loss", 0.1}}}};
  return state;
}

TEST(RunStateTest, RoundTrip) {
  const auto back = DecodeRunState(EncodeRunState(Example()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
}

TEST(RunStateTest, EveryMissingOrMalformedFieldIsNamed) {
  const nlohmann::json good = nlohmann::json::parse(EncodeRunState(Example()));
  for (const auto& item : good.items()) {
    if (item.key() == "lineage") continue;
    nlohmann::json bad = good;
    bad.erase(item.key());
    EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr(item.key()));
    bad[item.key()] = nullptr;
    EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr(item.key()));
  }
  nlohmann::json bad = good;
  bad["position"]["steps"] = -1;
  EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr("position.steps"));
  bad["position"]["steps"] = ~0ULL;
  EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr("position.steps"));
  bad = good;
  bad["run"] = "0000000000000000";
  EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr("run"));
}

TEST(RunStateTest, FileOfAnEarlierReleaseHasNoLineage) {
  nlohmann::json old = nlohmann::json::parse(EncodeRunState(Example()));
  old.erase("lineage");
  const auto state = DecodeRunState(old.dump());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->lineage, Lineage());
}

TEST(RunStateTest, UnorderedOrTooLongLineageIsRefused) {
  const nlohmann::json good = nlohmann::json::parse(EncodeRunState(Example()));
  for (const char* wrong :
       {R"({})", R"([1])", R"([{"generation":1}])", R"([{"generation":-1,"from":0}])",
        R"([{"generation":1,"from":1200}])", R"([{"generation":2,"from":0},{"generation":2,"from":5}])",
        R"([{"generation":1,"from":5},{"generation":2,"from":5}])"}) {
    nlohmann::json bad = good;
    bad["lineage"] = nlohmann::json::parse(wrong);
    EXPECT_THAT(std::string(DecodeRunState(bad.dump()).status().message()), HasSubstr("\"lineage\""))
        << wrong;
  }
}

TEST(RunStateTest, DeepNestingIsRefused) {
  const absl::Status status = DecodeRunState(std::string(3'000'000, '[')).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("state.json: nested deeper than 64 levels"));
}

TEST(RunStateTest, EveryPrefixIsRefused) {
  const std::string text = EncodeRunState(Example());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(DecodeRunState(text.substr(0, length)).ok()) << length;
  }
}

TEST(CheckSameRunTest, ListsEveryDifferenceThatMatters) {
  EXPECT_TRUE(CheckSameRun({{"a", "1"}}, {{"a", "1"}}, {}).ok());
  const absl::Status status =
      CheckSameRun({{"a", "1"}, {"b", "2"}, {"epochs", "3"}, {"new", "x"}},
                   {{"a", "1"}, {"b", "5"}, {"epochs", "9"}, {"old", "y"}}, {"epochs"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("b is 2, but the checkpoint has 5"), HasSubstr("new is x"),
                    HasSubstr("old is y"), Not(HasSubstr("epochs"))));
}

}  // namespace
}  // namespace mtrun::checkpoints
