#include "datasets/cache/fetch_messages.h"

#include "gtest/gtest.h"

namespace mtrun::datasets::fetch {
namespace {

TEST(FetchMessages, RoundTrip) {
  const std::vector<Message> messages = {Open{.url = "https://h/x",
                                              .secrets = {"k", "b", "a", "s", "t"},
                                              .s3_endpoint = "e",
                                              .s3_region = "r",
                                              .redirects = true,
                                              .cache_bytes = 5},
                                         Want{{"train/shard_00000.safetensors", "x"}},
                                         Opened{"digest"},
                                         Here{"file"},
                                         Trouble{""},
                                         Failed{"why \"x\"\n"}};
  for (const Message& message : messages) {
    const std::string line = Encode(message);
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    const auto again = Decode(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, message) << line;
  }
}

TEST(FetchMessages, NonsenseIsRefused) {
  for (const char* line : {"", "{", "[]", "{}", R"({"type":"x"})", R"({"type":"want"})",
                           R"({"type":"want","files":[1]})", R"({"type":"open","url":1})", R"({"type":1})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(line).status())) << line;
  }
}

}  // namespace
}  // namespace mtrun::datasets::fetch
