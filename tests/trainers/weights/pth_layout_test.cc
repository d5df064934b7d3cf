// Tests damaged .pth files, exhaustively for small ones. The dev preset runs this under AddressSanitizer;
// each input is in a block of its exact size, so that a read beyond it is detected. pth_reader_test tests
// values.
#include "trainers/weights/pth_layout.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::trainers {
namespace {

/// A copy in a block of exactly its size.
class Block {
 public:
  explicit Block(absl::string_view bytes) : size_(bytes.size()), data_(new char[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), data_.get());
  }
  absl::string_view view() const { return {data_.get(), size_}; }
  char& operator[](size_t i) { return data_[i]; }

 private:
  const size_t size_;
  const std::unique_ptr<char[]> data_;
};

std::string Bytes(const std::string& name) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  const auto file = ReadFile(absl::StrCat(source == nullptr ? "." : source, "/tests/testdata/pth/", name));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.value_or("");
}

/// Returns whether `status` is an error that a bad file may cause, and not one that indicates a bug.
bool IsClear(const absl::Status& status) {
  const absl::StatusCode code = status.code();
  const bool kind = code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kInvalidArgument ||
                    code == absl::StatusCode::kPermissionDenied || code == absl::StatusCode::kUnimplemented ||
                    code == absl::StatusCode::kNotFound;
  return kind && status.message().size() > 10;
}

bool Same(const std::vector<StoredTensor>& a, const std::vector<StoredTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.type == y.type && x.sizes == y.sizes && x.strides == y.strides &&
           x.offset == y.offset && x.storage == y.storage;
  });
}

/// Reads every element that the layout promises, so that AddressSanitizer detects a wrong promise.
uint64_t SumOfAll(const std::vector<StoredTensor>& tensors) {
  uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    std::string bytes(static_cast<uint64_t>(tensor.numel) * tensor.element_size(), 0);
    CopyElements(tensor, bytes.data());
    for (const char byte : bytes) sum += static_cast<uint8_t>(byte);
  }
  return sum;
}

constexpr const char* kFiles[] = {"zip.pth", "legacy.pth", "protocol4.pth", "checkpoint.pth", "python2.pth"};

TEST(pth_layout, EveryTruncationIsAClearError) {
  for (const char* name : kFiles) {
    const std::string file = Bytes(name);
    for (size_t size = 0; size < file.size(); ++size) {
      const Block block(absl::string_view(file).substr(0, size));
      const auto parsed = ParsePthLayout(block.view());
      ASSERT_FALSE(parsed.ok()) << name << " cut to " << size;
      ASSERT_TRUE(IsClear(parsed.status())) << name << " cut to " << size << ": " << parsed.status();
    }
  }
}

/// Flips the lowest, the highest and all bits of each byte. The zip format has checksums, so any result must
/// equal the saved values. The older format has none, so reads must only stay within the file.
TEST(pth_layout, EveryDamagedByteIsAClearErrorOrHarmless) {
  for (const char* name : kFiles) {
    const std::string file = Bytes(name);
    const auto intact = ParsePthLayout(file);
    ASSERT_TRUE(intact.ok()) << name << ": " << intact.status();
    const bool checked = std::string(name) != "legacy.pth" && std::string(name) != "python2.pth";
    int errors = 0;
    Block block(file);
    for (size_t at = 0; at < file.size(); ++at) {
      for (const int mask : {0x01, 0x80, 0xFF}) {
        block[at] = static_cast<char>(file[at] ^ mask);
        const auto parsed = ParsePthLayout(block.view());
        block[at] = file[at];
        if (!parsed.ok()) {
          ++errors;
          ASSERT_TRUE(IsClear(parsed.status())) << name << " byte " << at << ": " << parsed.status();
        } else if (checked) {
          ASSERT_TRUE(Same(*parsed, *intact)) << name << " byte " << at << " mask " << mask;
        } else {
          SumOfAll(*parsed);
        }
      }
    }
    EXPECT_GT(errors, static_cast<int>(file.size() / 2)) << name << ": the damage was hardly noticed";
  }
}

/// Damages two adjacent bytes of the older format, whose lengths and counts have no checksum.
TEST(pth_layout, LengthsOfTheOlderFormatAreNotTrusted) {
  const std::string file = Bytes("legacy.pth");
  for (size_t at = 0; at + 1 < file.size(); ++at) {
    for (const int value : {0x00, 0x7F, 0xFF}) {
      Block block(file);
      block[at] = block[at + 1] = static_cast<char>(value);
      const auto parsed = ParsePthLayout(block.view());
      if (parsed.ok()) {
        SumOfAll(*parsed);
      } else {
        ASSERT_TRUE(IsClear(parsed.status())) << "byte " << at << ": " << parsed.status();
      }
    }
  }
}

/// The oldest format ends with zeros that belong to no entry.
TEST(pth_layout, TarFormatIsReadWithinTheFile) {
  const std::string file = Bytes("tar.pth");
  const auto intact = ParsePthLayout(file);
  ASSERT_TRUE(intact.ok()) << intact.status();
  EXPECT_EQ(intact->front().name, "0.weight");
  EXPECT_EQ(intact->front().sizes, (std::vector<int64_t>{2, 3, 3, 3}));
  int errors = 0;
  for (size_t at = 0; at < file.size(); ++at) {
    const Block cut(absl::string_view(file).substr(0, at));
    Block damaged(file);
    damaged[at] = static_cast<char>(file[at] ^ 0xFF);
    for (const auto& parsed : {ParsePthLayout(cut.view()), ParsePthLayout(damaged.view())}) {
      errors += !parsed.ok();
      if (parsed.ok()) {
        SumOfAll(*parsed);
      } else {
        ASSERT_TRUE(IsClear(parsed.status())) << "byte " << at << ": " << parsed.status();
      }
    }
  }
  EXPECT_GT(errors, static_cast<int>(file.size() / 4));
}

TEST(pth_layout, ReportsThePositionsOfTensors) {
  const std::string file = Bytes("module.pth");
  const auto parsed = ParsePthLayout(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_FALSE(parsed->empty());
  const StoredTensor& first = parsed->front();
  EXPECT_EQ(first.name, "0.weight");
  EXPECT_EQ(first.type, datasets::DType::kF32);
  EXPECT_GE(first.storage.data(), file.data());
  EXPECT_LE(first.storage.data() + first.storage.size(), file.data() + file.size());
  EXPECT_FALSE(LooksLikePth("{\"__metadata__\"}"));
  EXPECT_TRUE(LooksLikePth(file.substr(0, 14)));
}

// ---- malicious files

template <typename T>
void AddNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Returns a zip file of stored entries.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out, directory;
  for (const auto& [name, data] : entries) {
    std::string about(8, 0);  // flags, method, time and date, before the checksum
    AddNumber<uint32_t>(
        about, static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size())));
    AddNumber<uint32_t>(about, static_cast<uint32_t>(data.size()));
    AddNumber<uint32_t>(about, static_cast<uint32_t>(data.size()));
    AddNumber<uint32_t>(about, static_cast<uint32_t>(name.size()));  // and no extra field
    directory += absl::StrCat("PK\1\2", std::string(4, 0), about, std::string(10, 0));
    AddNumber<uint32_t>(directory, static_cast<uint32_t>(out.size()));
    directory += name;
    out += absl::StrCat("PK\3\4", std::string(2, 0), about, name, data);
  }
  const auto at = static_cast<uint32_t>(out.size()), count = static_cast<uint32_t>(entries.size());
  out += absl::StrCat(directory, "PK\5\6", std::string(4, 0));
  AddNumber<uint32_t>(out, count << 16 | count);
  AddNumber<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  AddNumber<uint32_t>(out, at);
  return out + std::string(2, 0);
}

std::string PickledText(const std::string& text) {
  std::string out = "X";
  AddNumber<uint32_t>(out, static_cast<uint32_t>(text.size()));
  return out + text;
}

/// Returns a pickled state dict of one-element tensors `names`, in one storage of `numel` float32.
std::string PickleOf(const std::vector<std::string>& names, int32_t numel) {
  std::string size = "J";
  AddNumber<int32_t>(size, numel);
  // Pickled once, then taken from the memo.
  const std::string call = "ctorch._utils\n_rebuild_tensor_v2\nq\1";
  const std::string storage = absl::StrCat("(", PickledText("storage"), "ctorch\nFloatStorage\n",
                                           PickledText("0"), PickledText("cpu"), size, "tQq\2");
  std::string out = "\x80\2}(";
  for (const std::string& name : names) {
    const bool first = &name == &names.front();
    absl::StrAppend(&out, PickledText(name), first ? call : "h\1", "(", first ? storage : "h\2",
                    absl::string_view("K\0K\1\x85K\1\x85\x89NtR", 12));
  }
  return out + "u.";
}

/// This file of 3 + 8 MB would take hours if each tensor's storage were verified again.
TEST(pth_layout, StorageIsVerifiedOnceForAllItsTensors) {
  constexpr int kNumel = 2 << 20;
  std::vector<std::string> names;
  for (int i = 0; i < 100000; ++i) names.push_back(absl::StrCat(i));
  const std::string file =
      ZipOf({{"x/data.pkl", PickleOf(names, kNumel)}, {"x/data/0", std::string(4 * kNumel, 1)}});
  const auto parsed = ParsePthLayout(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->size(), names.size());
}

/// The stride of a dimension of size 1 is meaningless; the dev preset detects an overflow if it is used.
TEST(pth_layout, StrideOfADimensionOfOneIsIgnored) {
  const std::string bytes = "abcdefgh";
  const StoredTensor column{
      .sizes = {2, 1}, .strides = {1, INT64_MAX}, .offset = 0, .numel = 2, .storage = bytes};
  std::string out(8, 0);
  CopyElements(column, out.data());
  EXPECT_EQ(out, bytes);
}

/// Returns a state dict of one tensor "w" of two float32, with these arguments after its strides.
std::string OneTensor(const std::string& after, const std::string& function = "_rebuild_tensor_v2") {
  const std::string storage =
      absl::StrCat("(", PickledText("storage"), "ctorch\nFloatStorage\n", PickledText("0"),
                   PickledText("cpu"), absl::string_view("K\2tQ", 4));
  const std::string pickle = absl::StrCat("\x80\2}", PickledText("w"), "ctorch._utils\n", function, "\n(",
                                          storage, absl::string_view("K\0K\2\x85K\1\x85", 8), after, "tRs.");
  return ZipOf({{"x/data.pkl", pickle}, {"x/data/0", "abcdefgh"}});
}

TEST(pth_layout, NegativeBitIsReported) {
  const auto plain = ParsePthLayout(OneTensor("\x89N"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(plain->front().negative);
  const auto negative = ParsePthLayout(OneTensor(absl::StrCat("\x89N}", PickledText("neg"), "\x88s")));
  ASSERT_TRUE(negative.ok()) << negative.status();
  EXPECT_TRUE(negative->front().negative);
  EXPECT_FALSE(
      ParsePthLayout(OneTensor(absl::StrCat("\x89N}", PickledText("neg"), "\x89s")))->front().negative);
  EXPECT_THAT(
      std::string(
          ParsePthLayout(OneTensor(absl::StrCat("\x89N}", PickledText("odd"), "\x88s"))).status().message()),
      ::testing::HasSubstr("w: a tensor with the flag odd"));
  EXPECT_TRUE(ParsePthLayout(OneTensor("", "_rebuild_tensor")).ok()) << "of before PyTorch 0.4";
}

TEST(pth_layout, TensorThatNeedsCodeIsNamed) {
  const absl::Status refused = ParsePthLayout(OneTensor("", "run_this")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("w (torch._utils.run_this, which is code"));
  EXPECT_THAT(std::string(ParsePthLayout(OneTensor("", "_rebuild_other")).status().message()),
              ::testing::HasSubstr("w: it needs torch._utils._rebuild_other, which is code, not data"));
}

/// Repeated elements cost memory that the file does not have.
TEST(pth_layout, ExpandedTensorsAreReadUpToALimit) {
  const auto expanded = [](int32_t side) {
    std::string size = "J";
    AddNumber<int32_t>(size, side);
    const std::string shape = absl::StrCat(size, size, "\x86", absl::string_view("K\0K\0\x86", 5));
    std::string file = PickleOf({"a"}, 1);
    const std::string one("K\1\x85K\1\x85", 6);
    file.replace(file.find(one), one.size(), shape);
    return ZipOf({{"x/data.pkl", file}, {"x/data/0", "abcd"}});
  };
  const std::string small = expanded(100), large = expanded(1 << 20), huge = expanded(INT32_MAX);
  const auto read = ParsePthLayout(small);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->front().numel, 10000);
  for (const std::string& file : {large, huge}) {
    EXPECT_EQ(ParsePthLayout(file).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(pth_layout, DuplicateNameIsRefused) {
  const std::string file = ZipOf({{"x/data.pkl", PickleOf({"a", "b", "a"}, 1)}, {"x/data/0", "abcd"}});
  EXPECT_THAT(std::string(ParsePthLayout(file).status().message()),
              ::testing::HasSubstr("two tensors named a"));
}

}  // namespace
}  // namespace mtrun::trainers
