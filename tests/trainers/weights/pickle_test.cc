#include "trainers/weights/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ValueKind = PickleValue::Kind;

absl::StatusOr<Pickle> Parse(absl::string_view bytes) {
  return ParsePickle(bytes, {"collections.OrderedDict"});
}

std::string Error(absl::string_view bytes) { return std::string(Parse(bytes).status().message()); }

TEST(pickle, Containers) {
  // pickle.dumps([1, -2, True, None, 2.5, "text", (3, 4), {"a": 300}], protocol=2)
  constexpr char kBytes[] =
      "\x80\x02]q\x00(K\x01J\xfe\xff\xff\xff\x88NG@"
      "\x04\x00\x00\x00\x00\x00\x00X\x04\x00\x00\x00textq\x01K\x03K\x04\x86q\x02}q\x03X\x01"
      "\x00\x00\x00"
      "aq\x04M,\x01se.";
  const absl::string_view bytes(kBytes, sizeof kBytes - 1);
  const auto pickle = Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const auto& items = pickle->root->items;
  ASSERT_EQ(items.size(), 8u);
  EXPECT_EQ(items[0]->integer, 1);
  EXPECT_EQ(items[1]->integer, -2);
  EXPECT_EQ(items[2]->kind, ValueKind::kBool);
  EXPECT_EQ(items[3]->kind, ValueKind::kNone);
  EXPECT_EQ(items[4]->real, 2.5);
  EXPECT_EQ(items[5]->text, "text");
  EXPECT_EQ(items[6]->kind, ValueKind::kTuple);
  EXPECT_EQ(items[6]->items[1]->integer, 4);
  EXPECT_EQ(items[7]->kind, ValueKind::kDict);
  EXPECT_EQ(items[7]->items[1]->integer, 300);
  EXPECT_EQ(pickle->size, bytes.size());
}

TEST(pickle, LongIntegers) {
  EXPECT_EQ(Parse(absl::string_view("\x8a\x01\xff.", 4))->root->integer, -1);
  EXPECT_EQ(Parse(absl::string_view("\x8a\x03\x00\x00\x01.", 6))->root->integer, 65536);
  EXPECT_EQ(Parse(absl::string_view("\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09.", 12))->root->text.size(),
            9u);
}

TEST(pickle, CallsAreValues) {
  const auto pickle = Parse("ccollections\nOrderedDict\n)R(K\1K\2u.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root->kind, ValueKind::kCall);
  EXPECT_EQ(pickle->root->callee->text, "collections.OrderedDict");
  EXPECT_EQ(pickle->root->items.size(), 2u);
}

TEST(pickle, OnlyNamesOnTheListMayAppear) {
  EXPECT_EQ(Parse("cposix\nsystem\n(X\4\0\0\0true").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Error("cposix\nsystem\n."), HasSubstr("posix.system"));
  EXPECT_THAT(Error(absl::string_view("\x8c\x08"
                                      "builtins\x8c\x04"
                                      "eval\x93.",
                                      18)),
              HasSubstr("builtins.eval"));
}

TEST(pickle, BrokenOnesAreErrors) {
  EXPECT_THAT(Error(""), HasSubstr("byte 0"));
  EXPECT_THAT(Error("."), HasSubstr("nothing to take"));
  EXPECT_THAT(Error("NN."), HasSubstr("left over"));
  EXPECT_THAT(Error("t."), HasSubstr("no mark"));
  EXPECT_THAT(Error("(N\x85"), HasSubstr("in the middle"));
  EXPECT_THAT(Error("h\5."), HasSubstr("has not been there"));
  EXPECT_THAT(Error("NNs."), HasSubstr("nothing to take"));
  EXPECT_THAT(Error("NNNs."), HasSubstr("holds none"));
  EXPECT_THAT(Error("X\xff\xff\xff\x7f"), HasSubstr("in the middle"));
  EXPECT_THAT(Error("i"), HasSubstr("opcode 0x69"));
  EXPECT_THAT(Error("N(\x85."), HasSubstr("nothing to take")) << "a tuple must not reach under a mark";
}

TEST(pickle, MemoryHasABound) { EXPECT_THAT(Error(std::string(5 << 20, 'N')), HasSubstr("more values")); }

/// A list that holds itself is data that a walker has to expect; it is freed like any other.
TEST(pickle, SelfReferenceIsKept) {
  const auto pickle = Parse(absl::string_view("]q\0h\0a.", 7));
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root->items[0], pickle->root);
}

}  // namespace
}  // namespace mtrun::trainers
