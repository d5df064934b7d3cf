#include "rendezvous/wire/validate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

struct Inner {
  int size = 1;
  static void Fields(auto& self, auto&& field) { field("size", self.size, Range{1, 3}); }
};

struct Outer {
  std::string name = "n";
  Duration pause = std::chrono::seconds(1);
  std::optional<int> rank = {};
  std::vector<std::string> words = {};
  std::vector<Inner> parts = {};
  std::optional<Inner> extra = {};
  channel::Generation generation = {};
  bool flag = false;
  static void Fields(auto& self, auto&& field) {
    field("name", self.name, Size{1, 4});
    field("pause", self.pause, Range{0, 2'000'000'000});
    field("rank", self.rank, Range{0, 9});
    field("words", self.words, List{{0, 2}, {1, 3}});
    field("parts", self.parts, List{{0, 2}, {}});
    field("extra", self.extra);
    field("generation", self.generation);
    field("flag", self.flag);
  }
};

std::string Error(const Outer& outer) { return std::string(Validate(outer).message()); }

TEST(Validate, ErrorNamesFieldValueAndRange) {
  EXPECT_TRUE(Validate(Outer()).ok());
  Outer outer{.name = "names"};
  EXPECT_TRUE(absl::IsInvalidArgument(Validate(outer)));
  EXPECT_EQ(Error(outer), "name has 5 bytes, 1 to 4 are allowed");
  EXPECT_EQ(Error({.pause = std::chrono::seconds(3)}),
            "pause (ns) is 3000000000, 0 to 2000000000 are allowed");
  EXPECT_EQ(Error({.rank = 10}), "rank is 10, 0 to 9 are allowed");
  EXPECT_EQ(Error({.rank = 9}), "");
}

TEST(Validate, ChecksListsAndNestedMessages) {
  EXPECT_EQ(Error({.words = {"a", "b", "c"}}), "words is 3, 0 to 2 are allowed");
  EXPECT_EQ(Error({.words = {"a", "bcde"}}), "words has 4 bytes, 1 to 3 are allowed");
  EXPECT_EQ(Error({.parts = {{1}, {4}}}), "size is 4, 1 to 3 are allowed");
  EXPECT_EQ(Error({.parts = {{1}, {1}, {1}}}), "parts is 3, 0 to 2 are allowed");
  EXPECT_EQ(Error({.extra = Inner{0}}), "size is 0, 1 to 3 are allowed");
  EXPECT_EQ(Error({.generation = {kMaxGenerationNumber + 1, 0}}),
            "generation number is 9007199254740993, at most 9007199254740992 is allowed");
}

}  // namespace
}  // namespace mtrun::rendezvous
