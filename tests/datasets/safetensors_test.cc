#include "datasets/packed/safetensors.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

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
  EXPECT_FALSE(LayOutTensors({{.name = "a", .dtype = DType::kU8, .shape = {1}},
                              {.name = "a", .dtype = DType::kU8, .shape = {1}}},
                             {})
                   .ok());
  EXPECT_FALSE(LayOutTensors({{.name = "__metadata__", .dtype = DType::kU8, .shape = {1}}}, {}).ok());
  EXPECT_FALSE(LayOutTensors({{.name = "a", .dtype = DType::kU8, .shape = {-1}}}, {}).ok());
  EXPECT_FALSE(LayOutTensors({{.name = "a", .dtype = DType::kF64, .shape = {int64_t{1} << 60, 2}}}, {}).ok());
  EXPECT_FALSE(LayOutTensors({{.name = "\xFF\xFE", .dtype = DType::kU8, .shape = {1}}}, {}).ok());
}

TEST(SafetensorsTest, MalformedHeadersAreRefused) {
  const auto entry = [](const std::string& fields) { return File("{\"t\":{" + fields + "}}", 4); };
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  ASSERT_TRUE(ParseSafetensorsHeader(Bytes(entry(good))).ok());
  const std::string bad[] = {
      "",
      "1234567",
      File("", 0),
      File("[]", 0),
      File("{", 0),
      File("{\"t\":1}", 0),
      File("{\"__metadata__\":[]}", 0),
      File("{\"__metadata__\":{\"a\":1}}", 0),
      File("{}", 1),
      std::string(8, '\xFF') + "{}",
      std::string("\xFF\0\0\0\0\0\0\0{}", 10),
      entry(R"("dtype":"F32","shape":[1])"),
      entry(R"("dtype":"F32","data_offsets":[0,4])"),
      entry(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"),
      entry(R"("dtype":32,"shape":[1],"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
      entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"),
      entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"),
      entry(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,4])"),
      entry(R"("dtype":"F32","shape":[1],"data_offsets":[9223372036854775800,9223372036854775804])"),
      File(
          R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
          5),
      File(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
          5),
      File("{\"t\":{\"dtype\":\"\xFF\"}}", 0),
      File("{\"a\":" + std::string(1 << 20, '['), 0),
      File("{\"a\":" + std::string(1 << 20, '{'), 0),
  };
  for (const std::string& file : bad)
    EXPECT_FALSE(ParseSafetensorsHeader(Bytes(file)).ok()) << file.substr(0, 120);
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
