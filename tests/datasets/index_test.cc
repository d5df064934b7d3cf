#include "datasets/packed/index.h"

#include <random>

#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Index Sample() {
  Index index{.height = 2, .width = 3, .classes = {"cat", "d\"og \xC3\xA9"}};
  index.splits["train"] = {.class_counts = {3, 2},
                           .shards = {{3, 100, std::string(64, 'a')}, {2, 90, std::string(64, 'b')}}};
  index.splits["test"] = {.class_counts = {0, 1}, .shards = {{1, 80, std::string(64, 'c')}}};
  return index;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(IndexTest, RoundTrip) {
  const auto decoded = DecodeIndex(EncodeIndex(Sample()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
  EXPECT_EQ(decoded->images(), 6);
  EXPECT_EQ(decoded->bytes(), 270);
}

// Sets of earlier releases lack it, and the same source gives the same digest as it did before.
TEST(IndexTest, OrientationIsKeptOutsideOfTheDigest) {
  Index index = Sample();
  for (const char* rule : {kTurnedUpright, kAsStored}) {
    index.orientation = rule;
    EXPECT_EQ(IndexDigest(index), IndexDigest(Sample()));
    EXPECT_EQ(json::parse(EncodeIndex(index))["orientation"], rule);
    const auto decoded = DecodeIndex(EncodeIndex(index));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, index);
  }
  EXPECT_FALSE(json::parse(EncodeIndex(Sample())).contains("orientation"));
  index.orientation = "sideways";
  EXPECT_THAT(Message(DecodeIndex(EncodeIndex(index)).status()),
              HasSubstr("\"orientation\" is \"sideways\""));
}

TEST(IndexTest, TextsAreThoseOfAJsonLibrary) {
  Index encoded = Sample();
  encoded.encoded = true;
  encoded.min_height = encoded.min_width = 1;
  encoded.orientation = kTurnedUpright;
  for (const Index& index : {Sample(), encoded}) {
    EXPECT_EQ(EncodeIndex(index), json::parse(EncodeIndex(index)).dump(2) + "\n");
    json canonical = json::parse(EncodeIndex(index));
    canonical.erase("digest");
    canonical.erase("orientation");
    EXPECT_EQ(CanonicalIndex(index), canonical.dump());
  }
}

TEST(IndexTest, TextOfMoreValuesThanAnIndexHasIsRefused) {
  json index = json::parse(EncodeIndex(Sample()));
  index["unknown"] = json::array_t(3 << 20);
  EXPECT_THAT(Message(DecodeIndex(index.dump()).status()), HasSubstr("more than 3145728 values"));
  index["unknown"] = json::array_t(1 << 20);
  EXPECT_TRUE(DecodeIndex(index.dump()).ok());
  // Values of shards do not count, but what is not a shard does.
  index = json::parse(EncodeIndex(Sample()));
  index["splits"]["test"]["shards"] = json::array_t(4 << 20, json::array());
  EXPECT_THAT(Message(DecodeIndex(index.dump()).status()), HasSubstr("more than 3145728 values"));
}

TEST(IndexTest, MillionShardsAreRead) {
  Index index = Sample();
  index.splits["train"].shards.assign(1 << 20, {1, 100, std::string(64, 'a')});
  index.splits["train"].class_counts = {1 << 20, 0};
  const auto decoded = DecodeIndex(EncodeIndex(index));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, index);
}

TEST(IndexTest, LastOfRepeatedSplitsCounts) {
  json object = json::parse(EncodeIndex(Sample()));
  const std::string splits = object["splits"].dump();
  object.erase("splits");
  std::string text = object.dump();
  text.pop_back();
  const auto decoded = DecodeIndex(text + ",\"splits\":" + splits + ",\"splits\":" + splits + "}");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(IndexTest, GoldenCanonicalText) {
  const std::string a(64, 'a'), b(64, 'b'), c(64, 'c');
  const std::string text =
      "{\"channels\":3,\"classes\":[\"cat\",\"d\\\"og "
      "\xC3\xA9\"],\"format\":\"mtrun-packed\",\"height\":2,\"splits\":{"
      "\"test\":{\"class_counts\":[0,1],\"images\":1,\"shards\":[{\"bytes\":80,\"file\":\"test/"
      "shard_00000.safetensors\","
      "\"images\":1,\"sha256\":\"" +
      c +
      "\"}]},"
      "\"train\":{\"class_counts\":[3,2],\"images\":5,\"shards\":[{\"bytes\":100,\"file\":\"train/"
      "shard_00000.safetensors\","
      "\"images\":3,\"sha256\":\"" +
      a +
      "\"},{\"bytes\":90,\"file\":\"train/shard_00001.safetensors\",\"images\":2,"
      "\"sha256\":\"" +
      b + "\"}]}},\"version\":1,\"width\":3}";
  EXPECT_EQ(CanonicalIndex(Sample()), text);
  EXPECT_EQ(IndexDigest(Sample()), Sha256Hex(text));
  EXPECT_EQ(json::parse(EncodeIndex(Sample()))["digest"], Sha256Hex(text));
}

TEST(IndexTest, DigestCoversEveryField) {
  const std::string digest = IndexDigest(Sample());
  Index other = Sample();
  other.classes[0] = "cow";
  EXPECT_NE(IndexDigest(other), digest);
  other = Sample();
  other.splits["train"].shards[1].sha256[0] = '0';
  EXPECT_NE(IndexDigest(other), digest);
}

TEST(IndexTest, ForeignFilesAreRefused) {
  for (const char* text : {"", "{", "[]", "3", "{}", "{\"format\":7}", "{\"format\":\"zip\"}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeIndex(text).status())) << text;
  }
  json newer = json::parse(EncodeIndex(Sample()));
  newer["version"] = 3;
  EXPECT_THAT(Message(DecodeIndex(newer.dump()).status()), HasSubstr("version 3"));
}

TEST(IndexTest, EditedIndexIsDataLoss) {
  json edited = json::parse(EncodeIndex(Sample()));
  edited["classes"][0] = "cow";
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndex(edited.dump()).status()));
  EXPECT_THAT(Message(DecodeIndex(edited.dump()).status()), HasSubstr("changed"));
}

TEST(IndexTest, DamagedFieldsAreRefused) {
  const std::pair<const char*, json> changes[] = {{"/height", 0},
                                                  {"/height", "2"},
                                                  {"/height", -1},
                                                  {"/width", 1e30},
                                                  {"/width", 70000},
                                                  {"/width", 18446744073709551615u},
                                                  {"/channels", 1},
                                                  {"/classes", json::array()},
                                                  {"/classes", {1}},
                                                  {"/splits", json::object()},
                                                  {"/splits", 3},
                                                  {"/splits/train", 3},
                                                  {"/splits/train/images", 6},
                                                  {"/splits/train/class_counts", {5}},
                                                  {"/splits/train/class_counts", {4, 2}},
                                                  {"/splits/train/class_counts", {-1, 6}},
                                                  {"/splits/train/shards", json::array()},
                                                  {"/splits/train/shards/0", 1},
                                                  {"/splits/train/shards/0/images", 0},
                                                  {"/splits/train/shards/0/file", "../../etc/passwd"},
                                                  {"/splits/train/shards/0/sha256", "xyz"},
                                                  {"/splits/train/shards/0/bytes", -5},
                                                  {"/digest", 3},
                                                  {"/digest", ""}};
  for (const auto& [pointer, value] : changes) {
    json edited = json::parse(EncodeIndex(Sample()));
    edited[json::json_pointer(pointer)] = value;
    EXPECT_TRUE(absl::IsDataLoss(DecodeIndex(edited.dump()).status())) << pointer << " " << value;
  }
  json renamed = json::parse(EncodeIndex(Sample()));
  renamed["splits"]["../x"] = renamed["splits"]["test"];
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndex(renamed.dump()).status()));
}

TEST(IndexTest, NamesWithTerminalControlsAreRefused) {
  for (const std::string name : {"a\nb", "\x1B[2J", "\x7F", "\xC2\x9B"}) {
    Index index = Sample();
    index.classes[1] = name;
    EXPECT_FALSE(CheckClassNames(index.classes).ok());
    const absl::Status status = DecodeIndex(EncodeIndex(index)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("rename that class and import again"), Not(HasSubstr(name))));
  }
  json edited = json::parse(EncodeIndex(Sample()));
  edited["splits"]["\x1B[2J"] = edited["splits"]["test"];
  EXPECT_THAT(Message(DecodeIndex(edited.dump()).status()), Not(HasSubstr("\x1B")));
  edited = json::parse(EncodeIndex(Sample()));
  edited["splits"]["test"]["shards"][0]["file"] = "\x1B[2J";
  EXPECT_THAT(Message(DecodeIndex(edited.dump()).status()), Not(HasSubstr("\x1B")));
}

TEST(IndexTest, RandomMutationsAreRefused) {
  std::mt19937_64 random(test::Seed());
  const std::string original = EncodeIndex(Sample());
  for (int round = 0; round < 5000; ++round) {
    std::string text = original;
    const size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        break;
      default:
        text.insert(at, 1, "0123456789{}[]\",:-e"[random() % 19]);
    }
    const auto decoded = DecodeIndex(text);
    if (decoded.ok()) {
      EXPECT_EQ(*decoded, Sample()) << text;
    }  // only white space and the like may differ
  }
}

TEST(IndexTest, ErrorForAMissingIndexTellsHowToMakeIt) {
  const test::TempFolder folder;
  const auto missing = ReadIndex(folder.path());
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(Message(missing.status()), HasSubstr("mtdata import"));
  test::Write(folder / "index.json", "rubbish");
  EXPECT_THAT(Message(ReadIndex(folder.path()).status()), HasSubstr(folder / "index.json"));
}

}  // namespace
}  // namespace mtrun::datasets
