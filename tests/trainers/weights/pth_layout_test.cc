// Damaged .pth files: exhaustive on small ones. The dev preset runs this under AddressSanitizer; every input
// lies in a block of exactly its size, so that a read beyond it is seen. Values are pth_reader_test's.
#include "trainers/weights/pth_layout.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    std::vector<int64_t> index(tensor.sizes.size(), 0);
    int64_t at = tensor.offset;
    for (int64_t i = 0; i < tensor.numel; ++i) {
      const uint64_t element = SizeOf(tensor.type);
      for (uint64_t b = 0; b < element; ++b) {
        sum += static_cast<uint8_t>(tensor.storage.data()[static_cast<uint64_t>(at) * element + b]);
      }
      for (size_t d = index.size(); d-- > 0;) {
        at += tensor.strides[d];
        if (++index[d] < tensor.sizes[d]) break;
        at -= tensor.sizes[d] * tensor.strides[d];
        index[d] = 0;
      }
    }
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

}  // namespace
}  // namespace mtrun::trainers
