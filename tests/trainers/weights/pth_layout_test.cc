// Damaged .pth files: exhaustive on small ones. The dev preset runs this under AddressSanitizer; every input
// lies in a block of exactly its size, so that a read beyond it is seen. Values are pth_reader_test's.
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

/// A copy without anything behind its end.
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

/// What kind of error a file may be answered with; never one that stands for a fault of ours.
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

/// Touches every element that the layout promises: under AddressSanitizer a wrong promise is seen.
uint64_t SumOfAll(const std::vector<StoredTensor>& tensors) {
  uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors) {
    std::string bytes(static_cast<uint64_t>(tensor.numel) * SizeOf(tensor.type), 0);
    CopyElements(tensor, bytes.data());
    for (const char byte : bytes) sum += static_cast<uint8_t>(byte);
  }
  return sum;
}

constexpr const char* kFiles[] = {"zip.pth", "legacy.pth", "protocol4.pth", "checkpoint.pth"};

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

/// Each byte of each file, by its lowest bit, its highest and all. The zip format has checksums: what is
/// still read is what was saved. The older format has none: what is read lies within the file.
TEST(pth_layout, EveryDamagedByteIsAClearErrorOrHarmless) {
  for (const char* name : kFiles) {
    const std::string file = Bytes(name);
    const auto intact = ParsePthLayout(file);
    ASSERT_TRUE(intact.ok()) << name << ": " << intact.status();
    const bool checked = std::string(name) != "legacy.pth";
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

/// Two bytes at once, in the older format, whose lengths and counts have no checksum to save them.
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

TEST(pth_layout, SaysWhereTensorsLie) {
  const std::string file = Bytes("module.pth");
  const auto parsed = ParsePthLayout(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_FALSE(parsed->empty());
  const StoredTensor& first = parsed->front();
  EXPECT_EQ(first.name, "0.weight");
  EXPECT_EQ(first.type, StoredType::kFloat32);
  EXPECT_GE(first.storage.data(), file.data());
  EXPECT_LE(first.storage.data() + first.storage.size(), file.data() + file.size());
  EXPECT_FALSE(LooksLikePth("{\"__metadata__\"}"));
  EXPECT_TRUE(LooksLikePth(file.substr(0, 14)));
}

// ---- files that were made to do harm

template <typename T>
void AddNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// A zip file of plain entries.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out, directory;
  for (const auto& [name, data] : entries) {
    std::string about(8, 0);  // flags, method, time and date, in front of the checksum
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

/// A state dict of tensors of one element, named so, in one storage of `numel` float32.
std::string PickleOf(const std::vector<std::string>& names, int32_t numel) {
  std::string size = "J";
  AddNumber<int32_t>(size, numel);
  // Made once, then taken from the memo.
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

/// 3 + 8 MB that would cost hours if each tensor's storage were verified again.
TEST(pth_layout, AStorageIsVerifiedOnceForAllThatLieInIt) {
  constexpr int kNumel = 2 << 20;
  std::vector<std::string> names;
  for (int i = 0; i < 100000; ++i) names.push_back(absl::StrCat(i));
  const std::string file =
      ZipOf({{"x/data.pkl", PickleOf(names, kNumel)}, {"x/data/0", std::string(4 * kNumel, 1)}});
  const auto parsed = ParsePthLayout(file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->size(), names.size());
}

/// Of a side of 1 the stride says nothing, and PyTorch takes any; the dev preset sees where it is added up.
TEST(pth_layout, TheStrideOfASideOfOneMayBeAnything) {
  const std::string bytes = "abcdefgh";
  const StoredTensor column{
      .sizes = {2, 1}, .strides = {1, INT64_MAX}, .offset = 0, .numel = 2, .storage = bytes};
  std::string out(8, 0);
  CopyElements(column, out.data());
  EXPECT_EQ(out, bytes);
}

TEST(pth_layout, ANameThatComesTwiceIsRefused) {
  const std::string file = ZipOf({{"x/data.pkl", PickleOf({"a", "b", "a"}, 1)}, {"x/data/0", "abcd"}});
  EXPECT_THAT(std::string(ParsePthLayout(file).status().message()),
              ::testing::HasSubstr("two tensors named a"));
}

}  // namespace
}  // namespace mtrun::trainers
