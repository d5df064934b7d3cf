#include "trainers/input/image_bytes.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/posix.h"
#include "base/sha256.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "trainers/input/reading.h"

namespace mtrun::trainers {
namespace {

using datasets::ImageSize;
using datasets::RgbImage;

RgbImage Shades(const ImageSize& size) {
  RgbImage image = datasets::MakeImage(size);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 7 + i / 50);
  return image;
}

/// Packed sets of encoded images, each in a folder of its own.
class EncodedImagesTest : public ::testing::Test {
 protected:
  EncodedImagesTest() : folder_(*MakeTemporaryFolder("mtrun_encoded_")) {}
  ~EncodedImagesTest() override { std::filesystem::remove_all(folder_); }

  datasets::PackedSplit Write(const std::vector<RgbImage>& images, bool damaged = false) {
    datasets::Index index{
        .height = 1, .width = 1, .encoded = true, .min_height = 65535, .min_width = 65535, .classes = {"a"}};
    std::vector<datasets::Record> records;
    for (const RgbImage& image : images) {
      records.push_back({datasets::EncodePng(image), image.size});
      if (damaged) records.back().bytes[records.back().bytes.size() / 2] ^= 1;
      index.height = std::max(index.height, image.size.height);
      index.width = std::max(index.width, image.size.width);
      index.min_height = std::min(index.min_height, image.size.height);
      index.min_width = std::min(index.min_width, image.size.width);
    }
    std::string shard = datasets::EncodeShardHead(std::vector<int64_t>(images.size(), 0), records);
    for (const datasets::Record& record : records) shard += record.bytes;
    const auto n = static_cast<int64_t>(images.size());
    index.splits["train"] = {
        .class_counts = {n},
        .shards = {{.images = n, .bytes = static_cast<int64_t>(shard.size()), .sha256 = Sha256Hex(shard)}}};
    EXPECT_TRUE(MakeFolders(folder_ + "/train").ok());
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/" + datasets::ShardFile("train", 0), shard).ok());
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/index.json", datasets::EncodeIndex(index)).ok());
    auto split = datasets::PackedSplit::Open(folder_, "train", /*verify=*/true);
    EXPECT_TRUE(split.ok()) << split.status();
    return *std::move(split);
  }
  static std::vector<uint8_t> Pixels(const ImageBytes& bytes, size_t i) {
    return {bytes.images[i], bytes.images[i] + bytes.bytes_per_image()};
  }

  const std::string folder_;
};

TEST_F(EncodedImagesTest, ImagesOfOneSizeThatFitStayWhole) {
  const auto split = Write({Shades({20, 30}), Shades({20, 30})});
  const ImageBytes bytes = GatherImages(split, {1, 0, 1}, 32);
  EXPECT_EQ(bytes.height, 20);
  EXPECT_EQ(bytes.width, 30);
  EXPECT_EQ(bytes.images.size(), 3u);
  EXPECT_EQ(bytes.gathered.count, 3);
  EXPECT_EQ(Pixels(bytes, 0), Shades({20, 30}).pixels);
}

TEST_F(EncodedImagesTest, OtherImagesAreCroppedToTheCentreSquare) {
  const auto split = Write({Shades({40, 50}), Shades({10, 16})});
  const ImageBytes bytes = GatherImages(split, {0, 1}, 16);
  EXPECT_EQ(bytes.height, 16);
  EXPECT_EQ(bytes.width, 16);
  const auto large = datasets::DecodeBox(datasets::EncodePng(Shades({40, 50})), {0, 5, 40, 40}, {16, 16},
                                         datasets::DecodeMode::kExact);
  const auto small = datasets::DecodeBox(datasets::EncodePng(Shades({10, 16})), {0, 3, 10, 10}, {16, 16},
                                         datasets::DecodeMode::kExact);
  EXPECT_EQ(Pixels(bytes, 0), large->pixels);
  EXPECT_EQ(Pixels(bytes, 1), small->pixels);
  EXPECT_EQ(BytesOfAll(split, 16), 2 * 16 * 16 * 3);
}

TEST_F(EncodedImagesTest, DamagedImageIsNamed) {
  const auto split = Write({Shades({20, 30})}, /*damaged=*/true);
  try {
    GatherImages(split, {0}, 32);
    FAIL() << "it was taken";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("image 0 of the data set: damaged PNG"), std::string::npos);
  }
}

/// Reading images one by one gives the same pixels: the whole image, whatever its shape.
TEST(PixelImages, AreStretchedByBothReaders) {
  const support::TemporaryFolder folder;
  const std::string path =
      testing::WritePackedSet(folder.path(), "set", {.height = 48, .width = 64, .train = 2, .test = 1},
                              [](int64_t image, int64_t, int y, int x, int c) {
                                return static_cast<uint8_t>(2 * y + x + 40 * c + 10 * image);
                              });
  const auto split = datasets::PackedSplit::Open(path, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  const Reading hardly{.jitter = {.colours = 1e-9}};
  const ImageBytes whole = GatherImages(*split, {1}, 32);
  std::vector<uint8_t> read(static_cast<size_t>(whole.bytes_per_image()));
  ASSERT_TRUE(ReadImage(*split, hardly, 1, 32, RandomStream(1, 0, 0, kReadPurpose), 0, read.data()).ok());
  for (size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], whole.images[0][i], 1) << i;
}

}  // namespace
}  // namespace mtrun::trainers
