#include "trainers/input/resident_images.h"

#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/posix.h"
#include "tests/trainers/support/packed_set.h"
#include "trainers/input/byte_values.h"
#include "trainers/input/place_images.h"
#include "trainers/input/streamed_images.h"

namespace mtrun::trainers {
namespace {

using testing::SetShape;

class ResidentImagesTest : public ::testing::Test {
 protected:
  ResidentImagesTest() : folder_(*MakeTemporaryFolder("mtrun_resident_")) {}
  ~ResidentImagesTest() override { std::filesystem::remove_all(folder_); }

  datasets::PackedSplit Open(const std::string& name, const SetShape& shape) {
    auto split = datasets::PackedSplit::Open(
        testing::WritePackedSet(folder_, name, shape, testing::VariedPixel), "train");
    EXPECT_TRUE(split.ok()) << split.status();
    return *std::move(split);
  }

  const std::string folder_;
};

/// Covers flips, moves within and far out of the image, repeated ids, and all relations of sizes.
TEST_F(ResidentImagesTest, BatchesAreBitIdenticalToBatchMaker) {
  const std::vector<int64_t> ids = {3, 17, 0, 3, 11, 5, 8, 2};
  std::vector<Placement> placements =
      DrawPlacements({.flip = true, .crop_padding = 4}, RandomStream(1, 2, 3, "augment"), 5);
  placements.insert(placements.end(), {{40, 0, true}, {-7, -31, false}, {1, -40, true}});
  const SetShape shapes[] = {{.train = 20, .test = 1},
                             {.height = 27, .width = 30, .train = 20, .test = 1},
                             {.height = 50, .width = 41, .train = 20, .test = 1}};
  for (const SetShape& shape : shapes) {
    const auto split = Open(std::to_string(shape.height), shape);
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const BatchOptions options{.dtype = dtype, .format = format};
        const BatchMaker host(split, options);
        const ResidentImages resident(split, options);
        const StreamedImages streamed(split, options);
        for (const auto& placed : {placements, std::vector<Placement>()}) {
          const Batch want = host.Make(ids, placed);
          for (const ImageBatches* batches :
               {static_cast<const ImageBatches*>(&resident), static_cast<const ImageBatches*>(&streamed)}) {
            const Batch got = batches->Make(ids, placed);
            EXPECT_EQ(got.gathered, want.gathered);
            EXPECT_TRUE(got.images.equal(want.images)) << shape.height << " " << dtype;
            EXPECT_TRUE(got.labels.equal(want.labels));
            EXPECT_EQ(got.images.scalar_type(), dtype);
            EXPECT_TRUE(got.images.is_contiguous(format));
          }
        }
      }
    }
  }
}

/// The test above compares two implementations; this one checks the documented placement.
TEST_F(ResidentImagesTest, UncoveredPixelsAreBlack) {
  const at::Tensor white = at::full({1, 32, 32, 3}, 255, at::kByte);
  const std::vector<int64_t> ids = {0};
  const std::vector<Placement> moved = {{3, 0, true}};
  const at::Tensor image = PlaceImages(white, PlacementTable(ids, moved, at::Device(at::kCPU)),
                                       NormalisedByteValues(at::kFloat), 32);
  EXPECT_TRUE(image.narrow(3, 0, 29).eq(1).all().item<bool>());
  EXPECT_TRUE(image.narrow(3, 29, 3).eq(-1).all().item<bool>());
}

TEST_F(ResidentImagesTest, AcceptsMoreImagesThanOneUpload) {
  const auto split = Open("many", {.height = 8, .width = 8, .train = 600, .test = 1});
  const BatchOptions options{.image_size = 8};
  std::vector<int64_t> ids(600);
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_TRUE(ResidentImages(split, options)
                  .Make(ids, {})
                  .images.equal(BatchMaker(split, options).Make(ids, {}).images));
}

TEST_F(ResidentImagesTest, OptionChoosesTheClass) {
  const auto split = Open("small", {.train = 2, .test = 1});
  EXPECT_NE(dynamic_cast<ResidentImages*>(MakeImageBatches(split, {.resident = true}).get()), nullptr);
  EXPECT_NE(dynamic_cast<BatchMaker*>(MakeImageBatches(split, {.resident = false}).get()), nullptr);
}

}  // namespace
}  // namespace mtrun::trainers
