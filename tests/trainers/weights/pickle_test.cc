#include "trainers/weights/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ValueKind = PickleValue::Kind;

absl::StatusOr<Pickle> Parse(absl::string_view bytes) { return ParsePickle(bytes); }

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

/// A call is a value with its name, whatever it names: the parser has nothing that could look it up.
TEST(pickle, UnknownNamesAreInertValues) {
  const auto command = Parse(absl::string_view("cposix\nsystem\nX\4\0\0\0true\x85R.", 26));
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->root->kind, ValueKind::kCall);
  EXPECT_EQ(command->root->callee->text, "posix.system");
  EXPECT_EQ(command->root->argument->items[0]->text, "true");
  const auto name =
      Parse(absl::string_view("\x8c\x08"
                              "builtins\x8c\x04"
                              "eval\x93.",
                              18));
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->root->kind, ValueKind::kGlobal);
  EXPECT_EQ(name->root->text, "builtins.eval");
  // getattr(os, "system")("true"): the result of a call is called.
  const auto result =
      Parse(absl::string_view("cbuiltins\ngetattr\n(cm\nos\nX\6\0\0\0systemtRX\4\0\0\0true\x85R.", 54));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->root->callee->callee->text, "builtins.getattr");
}

TEST(pickle, ObjectsOfOtherProtocolsAreInertValues) {
  // Protocol 4: cls.__new__(cls, *args, **kwargs); protocol 1: an old-style class.
  for (const std::string& bytes :
       {std::string("ca\nB\nK\1\x85}\x92.", 12), std::string("(ca\nB\nK\1o.", 10)}) {
    const auto object = Parse(bytes);
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(object->root->callee->text, "a.B");
    EXPECT_EQ(object->root->argument->items[0]->integer, 1);
  }
  EXPECT_THAT(Error("(o."), HasSubstr("an object without a class"));
}

TEST(pickle, SetsAndLongBytes) {
  const auto set = Parse("\x8f(K\1K\2\x90.");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->root->items.size(), 2u);
  EXPECT_EQ(Parse("(K\1\x91.")->root->kind, ValueKind::kTuple);
  for (const char opcode : {'\x8d', '\x8e', '\x96'}) {
    const std::string head(1, opcode);
    EXPECT_EQ(Parse(head + std::string("\2\0\0\0\0\0\0\0ab.", 11))->root->text, "ab");
    EXPECT_THAT(Error(head + std::string(8, '\xff')), HasSubstr("it is truncated"));
  }
}

/// Python 2 writes numbers beyond 32 bits so, also in protocol 2.
TEST(pickle, NumbersAsText) {
  EXPECT_EQ(Parse("I140234866358304\n.")->root->integer, 140234866358304);
  EXPECT_EQ(Parse("L-7L\n.")->root->integer, -7);
  EXPECT_EQ(Parse("I01\n.")->root->kind, ValueKind::kBool);
  EXPECT_THAT(Error("Iseven\n."), HasSubstr("a number that is not one"));
  EXPECT_THAT(Error("I5"), HasSubstr("unterminated"));
}

/// Entries of an object are kept only as pairs, so that none is half.
TEST(pickle, ItemsOfObjectsAreIgnored) {
  const auto object = Parse("ca\nB\n)RK\1a(K\2K\3e.");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_TRUE(object->root->items.empty());
}

TEST(pickle, BrokenPicklesAreErrors) {
  EXPECT_THAT(Error(""), HasSubstr("byte 0"));
  EXPECT_THAT(Error("."), HasSubstr("the stack is empty"));
  EXPECT_THAT(Error("NN."), HasSubstr("left over"));
  EXPECT_THAT(Error("t."), HasSubstr("a mark is missing"));
  EXPECT_THAT(Error("(N\x85"), HasSubstr("it is truncated"));
  EXPECT_THAT(Error("h\5."), HasSubstr("does not exist"));
  EXPECT_THAT(Error("NNs."), HasSubstr("the stack is empty"));
  EXPECT_THAT(Error("NNNs."), HasSubstr("not a container"));
  EXPECT_THAT(Error("}(K\1u."), HasSubstr("entries for something that is not a container")) << "half a pair";
  EXPECT_THAT(Error("}(K\1K\2K\3u."), HasSubstr("entries for something that is not a container"));
  EXPECT_THAT(Error("}K\1s."), HasSubstr("the stack is empty"));
  EXPECT_THAT(Error("X\xff\xff\xff\x7f"), HasSubstr("it is truncated"));
  EXPECT_THAT(Error("i"), HasSubstr("opcode 0x69"));
  EXPECT_THAT(Error("N(\x85."), HasSubstr("the stack is empty")) << "a tuple must not reach under a mark";
}

TEST(pickle, MemoryIsLimited) { EXPECT_THAT(Error(std::string(5 << 20, 'N')), HasSubstr("too many values")); }

/// A list that contains itself is data that a walker must handle; it is freed like any other.
TEST(pickle, SelfReferenceIsKept) {
  const auto pickle = Parse(absl::string_view("]q\0h\0a.", 7));
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root->items[0], pickle->root);
}

}  // namespace
}  // namespace mtrun::trainers
