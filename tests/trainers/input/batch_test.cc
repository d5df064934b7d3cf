#include "trainers/input/batch.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/posix.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::trainers {
namespace {

using testing::SetShape;
using testing::WritePackedSet;

class BatchTest : public ::testing::Test {
 protected:
  BatchTest() : folder_(*MakeTemporaryFolder("mtrun_batch_")) {}
  ~BatchTest() override { std::filesystem::remove_all(folder_); }

  datasets::PackedSplit Open(const SetShape& shape) {
    auto split =
        datasets::PackedSplit::Open(WritePackedSet(folder_, "set", shape, testing::VariedPixel), "train");
    EXPECT_TRUE(split.ok()) << split.status();
    return *std::move(split);
  }
  /// Returns the images of `ids` as uint8 [n, 3, H, W].
  static at::Tensor Bytes(const datasets::PackedSplit& split, const std::vector<int64_t>& ids) {
    std::vector<at::Tensor> images;
    for (const int64_t id : ids) {
      images.push_back(at::from_blob(const_cast<uint8_t*>(split.image(id).data()),
                                     {split.height(), split.width(), 3}, at::kByte)
                           .permute({2, 0, 1})
                           .clone());
    }
    return at::stack(images);
  }
  static at::Tensor Normalised(const at::Tensor& bytes, at::ScalarType dtype) {
    return bytes.to(dtype).div(255.0).sub(0.5).div(0.5);
  }

  const std::string folder_;
};

TEST_F(BatchTest, NormalisesBitIdenticallyToPyTorch) {
  const auto split = Open({.train = 20, .test = 1});
  const std::vector<int64_t> ids = {3, 17, 0, 3};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Batch batch = BatchMaker(split, {.image_size = 32, .dtype = dtype}).Make(ids, {});
    EXPECT_TRUE(batch.images.equal(Normalised(Bytes(split, ids), dtype)));
    EXPECT_TRUE(batch.labels.equal(at::tensor(std::vector<int64_t>{3, 7, 0, 3}, at::kLong)));
    datasets::SampleSum want;
    for (const int64_t id : ids) want.Add(id);
    EXPECT_EQ(batch.gathered, want);
  }
}

TEST_F(BatchTest, SmallImagesAreCentredOnBlack) {
  const auto split = Open({.height = 28, .width = 26, .train = 3, .test = 1});
  const Batch batch = BatchMaker(split, {.image_size = 32}).Make(std::vector<int64_t>{2}, {});
  const at::Tensor padded = at::constant_pad_nd(Bytes(split, {2}), {3, 3, 2, 2}, 0);
  EXPECT_TRUE(batch.images.equal(Normalised(padded, at::kFloat)));
}

TEST_F(BatchTest, LargeImagesAreResized) {
  const auto split = Open({.height = 64, .width = 48, .train = 3, .test = 1});
  const Batch batch = BatchMaker(split, {.image_size = 32}).Make(std::vector<int64_t>{1, 2}, {});
  EXPECT_EQ(batch.images.sizes().vec(), (std::vector<int64_t>{2, 3, 32, 32}));
  const at::Tensor bytes = Bytes(split, {1, 2}).to(at::kFloat);
  EXPECT_NEAR((batch.images.mean().item<double>() + 1) / 2 * 255, bytes.mean().item<double>(), 1.0);
}

/// Places with tensor operations: flip, then a window moved by (dx, dy) over the padded image.
at::Tensor ReferenceBatch(const at::Tensor& bytes, const Placement& p, int padding) {
  const at::Tensor flipped = p.flip ? bytes.flip({3}) : bytes;
  const at::Tensor padded = at::constant_pad_nd(flipped, {padding, padding, padding, padding}, 0);
  return padded.narrow(2, padding + p.dy, 32).narrow(3, padding + p.dx, 32);
}

TEST_F(BatchTest, PlacementsFlipAndShift) {
  const auto split = Open({.train = 4, .test = 1});
  const BatchMaker maker(split, {.image_size = 32});
  for (const Placement& p : {Placement{}, Placement{0, 0, true}, Placement{3, -2, false},
                             Placement{-4, 1, true}, Placement{4, 4, true}, Placement{40, 0, false}}) {
    const Batch batch = maker.Make(std::vector<int64_t>{1}, std::vector<Placement>{p});
    const at::Tensor want = Normalised(ReferenceBatch(Bytes(split, {1}), p, 40), at::kFloat);
    EXPECT_TRUE(batch.images.equal(want)) << "dx " << p.dx << " dy " << p.dy << " flip " << p.flip;
  }
}

}  // namespace
}  // namespace mtrun::trainers
