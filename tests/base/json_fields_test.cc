#include "base/json_fields.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const json kObject = {{"flag", true},  {"number", 2.5},      {"whole", 7},
                      {"text", "abc"}, {"list", {"a", "b"}}, {"nothing", nullptr}};

TEST(JsonFields, ReadsEachKind) {
  JsonFields fields("example", kObject);
  bool flag = false;
  double number = 0, nothing = 0, finite = 0;
  int whole = 0;
  std::string text;
  std::vector<std::string> list;
  fields.Read("flag", flag);
  fields.Read("number", number);
  fields.Read("whole", whole);
  fields.Read("text", text);
  fields.Read("list", list);
  fields.ReadOrNull("nothing", nothing);
  fields.ReadOrNull("number", finite);
  ASSERT_TRUE(fields.status().ok()) << fields.status();
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, 2.5);
  EXPECT_EQ(finite, 2.5);
  EXPECT_EQ(whole, 7);
  EXPECT_EQ(text, "abc");
  EXPECT_THAT(list, ElementsAre("a", "b"));
  EXPECT_TRUE(std::isnan(nothing));
  EXPECT_TRUE(fields.Has("flag"));
  EXPECT_FALSE(fields.Has("absent"));
}

TEST(JsonFields, OutOfRangeIntegersAreRefused) {
  const json object = {{"small", -1}, {"large", 1LL << 40}, {"huge", ~0ULL}};
  const auto complaint = [&](const char* name, auto value) {
    JsonFields fields("example", object);
    fields.Read(name, value);
    return std::string(fields.status().message());
  };
  EXPECT_EQ(complaint("small", uint32_t{0}), "example: field \"small\" is out of range");
  EXPECT_EQ(complaint("large", 0), "example: field \"large\" is out of range");
  EXPECT_EQ(complaint("huge", int64_t{0}), "example: field \"huge\" is out of range");
  EXPECT_EQ(complaint("huge", uint64_t{0}), "");
  EXPECT_EQ(complaint("small", 0), "");
}

TEST(JsonFields, FirstErrorIsKeptAndTheValueIsUnchanged) {
  JsonFields fields("example", kObject);
  int whole = 5;
  bool flag = true;
  fields.Read("number", whole);
  fields.Read("absent", flag);
  EXPECT_EQ(whole, 5);
  EXPECT_TRUE(flag);
  EXPECT_EQ(fields.status(), absl::InvalidArgumentError("example: field \"number\" is not a whole number"));
}

TEST(JsonFields, EveryWrongTypeHasItsMessage) {
  const auto complaint = [](auto read) {
    JsonFields fields("x", kObject);
    read(fields);
    return std::string(fields.status().message());
  };
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<std::string> list;
  EXPECT_EQ(complaint([&](JsonFields& f) { f.Read("text", flag); }),
            "x: field \"text\" is not true or false");
  EXPECT_EQ(complaint([&](JsonFields& f) { f.Read("nothing", number); }),
            "x: field \"nothing\" is not a number");
  EXPECT_EQ(complaint([&](JsonFields& f) { f.ReadOrNull("text", number); }),
            "x: field \"text\" is not a number");
  EXPECT_EQ(complaint([&](JsonFields& f) { f.Read("whole", text); }), "x: field \"whole\" is not a string");
  EXPECT_EQ(complaint([&](JsonFields& f) { f.Read("text", list); }), "x: field \"text\" is not a list");
  EXPECT_EQ(complaint([&](JsonFields& f) { f.Find("absent"); }), "x: field \"absent\" is missing");
}

TEST(JsonFields, NonObjectHasNoFields) {
  for (const json& other : {json(), json(3), json::array({1})}) {
    JsonFields fields("x", other);
    EXPECT_FALSE(fields.Has("a"));
    EXPECT_EQ(fields.Find("a"), nullptr);
    EXPECT_FALSE(fields.status().ok());
  }
}

}  // namespace
}  // namespace mtrun
