#include "datasets/packed/safetensors.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/status.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string File(const std::string& json, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(json.size() >> (8 * i)));
  return file + json + std::string(data_bytes, '\0');
}

std::vector<TensorInfo> SomeTensors() {
  return {{.name = "weight", .dtype = DType::kF32, .shape = {2, 3}},
          {.name = "empty", .dtype = DType::kI64, .shape = {0, 7}},
          {.name = "scalar", .dtype = DType::kF64, .shape = {}},
          {.name = "half \"quoted\" \xC3\xA9", .dtype = DType::kBF16, .shape = {5}},
          {.name = "u", .dtype = DType::kU8, .shape = {3}},
          {.name = "h", .dtype = DType::kF16, .shape = {1}},
          {.name = "i", .dtype = DType::kI32, .shape = {1}}};
}

std::string Encoded(const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata) {
  const auto header = LayOutTensors(tensors, metadata);
  EXPECT_TRUE(header.ok()) << header.status();
  const auto encoded = EncodeSafetensorsHeader(*header);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return *encoded + std::string(header->data_bytes, 'x');
}

TEST(SafetensorsTest, RoundTrip) {
  const auto header = LayOutTensors(SomeTensors(), {{"epoch", "3"}, {"note", "two\nlines"}});
  ASSERT_TRUE(header.ok()) << header.status();
  const std::string file = Encoded(SomeTensors(), header->metadata);
  const auto read = ParseSafetensorsHeader(Bytes(file));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->metadata, header->metadata);
  EXPECT_EQ(read->data_offset, header->data_offset);
  EXPECT_EQ(read->data_offset % 64, 0);
  ASSERT_EQ(read->tensors.size(), header->tensors.size());
  for (const TensorInfo& tensor : header->tensors) {
    ASSERT_NE(read->Find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(*read->Find(tensor.name), tensor);
    EXPECT_EQ(static_cast<int64_t>(TensorBytes(Bytes(file), *read, tensor).size()), tensor.bytes());
  }
  EXPECT_EQ(read->Find("absent"), nullptr);
  EXPECT_EQ(read->Find("weight")->bytes(), 24);
  EXPECT_EQ(read->Find("scalar")->bytes(), 8);
}

TEST(SafetensorsTest, FileWithoutTensors) {
  const auto read = ParseSafetensorsHeader(Bytes(Encoded({}, {})));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tensors.empty());
}

TEST(SafetensorsTest, GoldenBytes) {
  const std::string json =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const auto header = LayOutTensors({{.name = "a", .dtype = DType::kU8, .shape = {2}}}, {{"k", "v"}});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*EncodeSafetensorsHeader(*header), File(json + std::string(128 - 8 - json.size(), ' '), 0));
}

TEST(SafetensorsTest, DTypesHaveNamesAndSizes) {
  for (const DType dtype :
       {DType::kU8, DType::kI32, DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(DTypeSize(DType::kBF16), 2);
  EXPECT_EQ(DTypeSize(DType::kI64), 8);
  EXPECT_EQ(ParseDType("F8"), std::nullopt);
}

TEST(SafetensorsTest, LayOutRefusesUnwritableTensors) {
  const auto refuses = [](std::vector<TensorInfo> tensors, const char* why) {
    EXPECT_THAT(LayOutTensors(std::move(tensors), {}),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  const TensorInfo one = {.name = "a", .dtype = DType::kU8, .shape = {1}};
  refuses({one, one}, "tensor name \"a\" is already in use");
  refuses({{.name = "__metadata__", .dtype = DType::kU8, .shape = {1}}},
          "tensor name \"__metadata__\" is already in use");
  refuses({{.name = "a", .dtype = DType::kU8, .shape = {-1}}}, "has an impossible shape");
  refuses({{.name = "a", .dtype = DType::kF64, .shape = {int64_t{1} << 60, 2}}}, "has an impossible shape");
  refuses({{.name = "\xFF\xFE", .dtype = DType::kU8, .shape = {1}}}, "is not UTF-8");
}

TEST(SafetensorsTest, MalformedHeadersAreRefused) {
  const auto entry = [](const std::string& fields) { return File("{\"t\":{" + fields + "}}", 4); };
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  ASSERT_TRUE(ParseSafetensorsHeader(Bytes(entry(good))).ok());
  const auto of = [&entry](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return entry("\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets);
  };
  const auto pair = [](const std::string& first, const std::string& second) {
    return File(R"({"a":{"dtype":"U8",)" + first + R"(},"b":{"dtype":"U8",)" + second + "}}", 5);
  };
  const struct {
    std::string file;
    const char* why;
  } bad[] = {
      {"", "truncated: only 0 bytes"},
      {"1234567", "truncated: only 7 bytes"},
      {File("", 0), "no '{' after the length"},
      {File("[]", 0), "no '{' after the length"},
      {File("{", 0), "not valid JSON at byte"},
      {File("{\"t\":1}", 0), "\"t\" lacks dtype, shape or data_offsets"},
      {File("{\"__metadata__\":[]}", 0), "__metadata__ is not an object"},
      {File("{\"__metadata__\":{\"a\":1}}", 0), "metadata \"a\" is not a string"},
      {File("{}", 1), "1 bytes follow the last tensor"},
      {std::string(8, '\xFF') + "{}", "does not begin with the length of a header"},
      {std::string("\xFF\0\0\0\0\0\0\0{}", 10), "truncated: the header has 255 bytes, the file 10"},
      {entry(R"("dtype":"F32","shape":[1])"), "lacks dtype, shape or data_offsets"},
      {entry(R"("dtype":"F32","data_offsets":[0,4])"), "lacks dtype, shape or data_offsets"},
      {entry(R"("shape":[1],"data_offsets":[0,4])"), "lacks dtype, shape or data_offsets"},
      {of("\"F31\"", "[1]", "[0,4]"), "has the dtype F31, which is not supported"},
      {of("32", "[1]", "[0,4]"), "of the wrong kind"},
      {of("\"F32\"", "1", "[0,4]"), "of the wrong kind"},
      {of("\"F32\"", "[1]", "4"), "of the wrong kind"},
      {of("\"F32\"", "[1]", "[0]"), "of the wrong kind"},
      {of("\"F32\"", "[1]", "[0,4,8]"), "of the wrong kind"},
      {of("\"F32\"", "[-1]", "[0,4]"), "a dimension of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[1.0]", "[0,4]"), "a dimension of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[18446744073709551615]", "[0,4]"), "a dimension of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[99999999999999999999999]", "[0,4]"),
       "a dimension of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[1]", "[-4,0]"), "an offset of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[1]", "[0,4.0]"), "an offset of tensor \"t\" is not a whole number"},
      {of("\"F32\"", "[1]", "[4,0]"), "needs 4 bytes, but its data_offsets are [4, 0]"},
      // The data is all of the file's: only its shape is another.
      {of("\"F32\"", "[2]", "[0,4]"), "needs 8 bytes, but its data_offsets are [0, 4]"},
      {of("\"F32\"", "[0]", "[0,4]"), "needs 0 bytes, but its data_offsets are [0, 4]"},
      {of("\"F16\"", "[1]", "[0,4]"), "needs 2 bytes, but its data_offsets are [0, 4]"},
      {of("\"F64\"", "[]", "[0,4]"), "needs 8 bytes, but its data_offsets are [0, 4]"},
      {of("\"F32\"", "[2]", "[0,8]"), "ends at byte 8 of the data, but the file has 4"},
      {of("\"U8\"", "[3]", "[1,4]"), "a gap or an overlap before tensor \"t\""},
      {of("\"F32\"", "[4611686018427387904,4]", "[0,0]"), "has an impossible shape"},
      {of("\"F32\"", "[1]", "[9223372036854775800,9223372036854775804]"), "but the file has 4"},
      {pair(R"("shape":[3],"data_offsets":[0,3])", R"("shape":[3],"data_offsets":[2,5])"),
       "a gap or an overlap before tensor \"b\""},
      {pair(R"("shape":[2],"data_offsets":[0,2])", R"("shape":[2],"data_offsets":[3,5])"),
       "a gap or an overlap before tensor \"b\""},
      {pair(R"("shape":[2],"data_offsets":[0,2])", R"("shape":[2],"data_offsets":[2,4])"),
       "1 bytes follow the last tensor"},
      {File("{\"t\":{\"dtype\":\"\xFF\"}}", 0), "not valid JSON at byte"},
      {File("{\"a\":" + std::string(1 << 20, '['), 0), "nested deeper than"},
      {File("{\"a\":" + std::string(1 << 20, '{'), 0), "nested deeper than"},
  };
  for (const auto& [file, why] : bad) {
    const auto read = ParseSafetensorsHeader(Bytes(file));
    EXPECT_TRUE(absl::IsInvalidArgument(read.status()) || absl::IsDataLoss(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(why)) << file.substr(0, 120);
  }
}

TEST(SafetensorsTest, TruncatedFileIsDataLoss) {
  const std::string file = Encoded(SomeTensors(), {});
  const auto read = ParseSafetensorsHeader(Bytes(file.substr(0, file.size() - 1)));
  EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("truncated"));
}

/// Flips the lowest bit, the highest bit or all bits of each byte: expects a readable error, or a header
/// whose tensors are inside the file. The data has no checksum.
TEST(SafetensorsTest, EveryDamagedByteIsAnErrorOrHarmless) {
  const std::string file = Encoded(SomeTensors(), {{"a", "b"}});
  int errors = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> damaged(file.begin(),
                                   file.end());  // no slack: AddressSanitizer finds overruns
      damaged[at] ^= static_cast<uint8_t>(mask);
      const auto header = ParseSafetensorsHeader(damaged);
      if (!header.ok()) {
        ++errors;
        ASSERT_TRUE(absl::IsInvalidArgument(header.status()) || absl::IsDataLoss(header.status()))
            << "byte " << at << ": " << header.status();
        ASSERT_GT(header.status().message().size(), 10u) << "byte " << at;
        continue;
      }
      uint64_t sum = 0;
      for (const TensorInfo& tensor : header->tensors) {
        for (const uint8_t byte : TensorBytes(damaged, *header, tensor)) sum += byte;
      }
      ASSERT_LE(sum, 255 * file.size()) << "byte " << at;
    }
  }
  EXPECT_GT(errors, 100) << "the damage was hardly noticed";
}

TEST(SafetensorsTest, EveryPrefixIsRefused) {
  const std::string file = Encoded(SomeTensors(), {{"a", "b"}});
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(ParseSafetensorsHeader(Bytes(file.substr(0, size))).ok()) << size;
}

// Accepted headers must stay inside the file, and nothing may crash (checked by the sanitizer builds).
TEST(SafetensorsTest, RandomMutationsNeverEscapeTheFile) {
  std::mt19937_64 random(test::Seed());
  const std::string original = Encoded(SomeTensors(), {{"a", "b"}});
  const std::string alphabet = "0123456789{}[]\",:-.eE\\ \xFF\x01";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = original;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % (random() % 4 == 0 ? 8 : file.size());
      switch (random() % 3) {
        case 0:
          file[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          file.erase(at, 1 + random() % 8);
          break;
        default:
          file.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
      if (file.size() < 9) break;
    }
    const std::vector<uint8_t> exact(file.begin(),
                                     file.end());  // no slack: AddressSanitizer finds overruns
    const auto header = ParseSafetensorsHeader(exact);
    if (!header.ok()) continue;
    ++accepted;
    for (const TensorInfo& tensor : header->tensors) {
      int64_t sum = 0;
      for (const uint8_t byte : TensorBytes(exact, *header, tensor)) sum += byte;
      EXPECT_GE(sum, 0);
    }
  }
  EXPECT_GT(accepted, 0);  // spaces and letters of names may change freely
}

TEST(SafetensorsTest, WritesAFile) {
  const test::TempFolder folder;
  const std::string a = "abcd", b = "12345678";
  ASSERT_TRUE(WriteSafetensorsFile(folder / "m.safetensors",
                                   {{.name = "a", .dtype = DType::kU8, .shape = {4}},
                                    {.name = "b", .dtype = DType::kI64, .shape = {1}}},
                                   {Bytes(a), Bytes(b)}, {})
                  .ok());
  const std::string file = test::Read(folder / "m.safetensors");
  const auto header = ParseSafetensorsHeader(Bytes(file));
  ASSERT_TRUE(header.ok()) << header.status();
  const auto bytes = TensorBytes(Bytes(file), *header, *header->Find("b"));
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), b);
  EXPECT_FALSE(WriteSafetensorsFile(folder / "none/m.safetensors", {}, {}, {}).ok());
}

}  // namespace
}  // namespace mtrun::datasets
