#include "trainers/features/feature_source.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/file_size_limit.h"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "trainers/features/feature_batches.h"
#include "trainers/input/batch.h"

namespace mtrun::trainers {
namespace {

constexpr int64_t kImages = 10, kMicroBatch = 3, kWidth = 4;

/// Counts the images that are computed, by calls.
struct Network {
  at::Tensor operator()(const at::Tensor& images) {
    sizes.push_back(images.size(0));
    // The sum over the batch shows whether a short micro-batch is filled up with zeros only.
    at::Tensor means = images.mean({2, 3}).contiguous();
    return at::cat({means, images.flatten(1).select(1, 5).unsqueeze(1)}, 1);
  }
  std::vector<int64_t> sizes;
};

/// Ten images in micro-batches of three: steps of 6 and 4 images, the last with a short micro-batch.
class FeatureSourceTest : public ::testing::Test {
 protected:
  FeatureSourceTest()
      : data_(*datasets::PackedSplit::Open(
            testing::WritePackedSet(folder_.path(), "set", {.train = kImages, .test = 7},
                                    testing::VariedPixel),
            "train")),
        order_(data_, OptionsOf(), {.dtype = at::kDouble}),
        plain_(data_, OptionsOf(), {.dtype = at::kDouble}),
        kept_(kImages, kWidth, at::kDouble, at::kCPU),
        source_(order_, order_, kMicroBatch, std::ref(network_), kept_) {}

  static SourceOptions OptionsOf() {
    SourceOptions options;
    options.plan = {.global_batch = 6, .micro_batch = kMicroBatch};
    return options;
  }
  void Open(uint64_t key = 1) { kept_.Open(File(), key); }
  std::string File() const { return folder_.File("train.features"); }
  /// Makes all micro-batches of an epoch, and expects what the network computes of their images.
  void ExpectEpoch(int64_t epoch) {
    const int64_t each = order_.steps_per_epoch();
    for (int64_t step = epoch * each; step < (epoch + 1) * each; ++step) {
      for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const Batch images = plain_.Make(step, micro_batch), features = source_.Make(step, micro_batch);
        EXPECT_TRUE(features.images.equal(Network()(images.images))) << step << " " << micro_batch;
        EXPECT_TRUE(features.labels.equal(images.labels));
        EXPECT_EQ(features.gathered, images.gathered);
        EXPECT_EQ(features.images.sizes(), (std::vector<int64_t>{images.labels.size(0), kWidth}));
      }
    }
  }

  const support::TemporaryFolder folder_;
  const datasets::PackedSplit data_;
  DatasetSource order_, plain_;
  Network network_;
  KeptFeatures kept_;
  FeatureSource source_;
};

TEST_F(FeatureSourceTest, EachImageIsComputedOnceInTheSameShape) {
  Open();
  for (int64_t epoch = 0; epoch < 5; ++epoch) ExpectEpoch(epoch);
  EXPECT_EQ(network_.sizes, (std::vector<int64_t>{3, 3, 3, 3})) << "the short one is filled up";
}

TEST_F(FeatureSourceTest, NothingIsKeptBeforeTheFileIsOpen) {
  for (int64_t epoch = 0; epoch < 2; ++epoch) ExpectEpoch(epoch);
  EXPECT_EQ(network_.sizes.size(), 8u);
}

/// A worker that continues reads what others have computed. Other weights need other features.
TEST_F(FeatureSourceTest, OtherProcessesReadWhatIsKeptUnderTheSameKey) {
  Open();
  ExpectEpoch(0);
  KeptFeatures other(kImages, kWidth, at::kDouble, at::kCPU);
  other.Open(File(), 1);
  EXPECT_TRUE(other.Has({0, 3, 9}));
  other.Open(File(), 2);
  EXPECT_FALSE(other.Has({0}));
  Open(2);
  network_.sizes.clear();
  ExpectEpoch(1);
  EXPECT_EQ(network_.sizes.size(), 4u);
}

/// If only some images of a micro-batch are there, it is computed whole.
TEST_F(FeatureSourceTest, LostRowIsComputedAgain) {
  Open();
  ExpectEpoch(0);
  std::string text = support::ReadText(File());
  text[text.size() / 2] ^= 1;
  support::WriteText(File(), text);
  network_.sizes.clear();
  ExpectEpoch(1);
  ExpectEpoch(2);
  EXPECT_EQ(network_.sizes.size(), 1u);
}

TEST_F(FeatureSourceTest, FullDiskCostsTimeButNoResult) {
  Open();
  {
    const support::FileSizeLimit limit(200);
    ExpectEpoch(0);
    ExpectEpoch(1);
  }
  EXPECT_GT(network_.sizes.size(), 4u);
}

TEST_F(FeatureSourceTest, FileThatCannotBeOpenedCostsTimeButNoResult) {
  kept_.Open(folder_.File("none/train.features"), 1);
  ExpectEpoch(0);
  ExpectEpoch(1);
  EXPECT_EQ(network_.sizes.size(), 8u);
}

TEST_F(FeatureSourceTest, EmptyBatchHasFeaturesOfNoImage) {
  const Batch empty = source_.Empty(0);
  EXPECT_EQ(empty.images.sizes(), (std::vector<int64_t>{0, kWidth}));
  EXPECT_EQ(empty.images.scalar_type(), at::kDouble);
  EXPECT_EQ(empty.labels.scalar_type(), at::kLong);
}

/// Data of a server can be replaced if it was damaged. Features of the damaged images must not stay.
TEST_F(FeatureSourceTest, ReplacedDataIsComputedAgain) {
  class Replaceable : public MicroBatchSource {
   public:
    explicit Replaceable(DatasetSource& source) : source_(source) {}
    int64_t micro_batches() const override { return source_.micro_batches(); }
    int64_t SamplesInStep(int64_t step) const override { return source_.SamplesInStep(step); }
    int64_t SamplesInMicroBatch(int64_t step, int64_t number) const override {
      return source_.SamplesInMicroBatch(step, number);
    }
    Batch Make(int64_t step, int64_t number) override { return source_.Make(step, number); }
    int64_t Replaced() const override { return replaced; }
    int64_t replaced = 0;

   private:
    DatasetSource& source_;
  };
  Replaceable images(plain_);
  FeatureSource source(order_, images, kMicroBatch, std::ref(network_), kept_);
  Open();
  source.Make(0, 0);
  source.Make(0, 0);
  EXPECT_EQ(network_.sizes.size(), 1u);
  images.replaced = 1;
  source.Make(0, 0);
  source.Make(0, 0);
  EXPECT_EQ(network_.sizes.size(), 2u);
}

TEST_F(FeatureSourceTest, EvaluationsReadTheFeaturesOfTheFirstOne) {
  const auto split = datasets::PackedSplit::Open(folder_.File("set"), "test");
  ASSERT_TRUE(split.ok());
  KeptFeatures kept(split->size(), kWidth, at::kDouble, at::kCPU);
  const BatchOptions options{.dtype = at::kDouble};
  const auto plain = MakeImageBatches(*split, options);
  const FeatureBatches batches(MakeImageBatches(*split, options), std::ref(network_), kept);
  kept.Open(folder_.File("test.features"), 1);
  for (int evaluation = 0; evaluation < 3; ++evaluation) {
    for (const std::vector<int64_t>& ids : {std::vector<int64_t>{0, 1, 2, 3}, {4, 5, 6}}) {
      const Batch images = plain->Make(ids, {}), features = batches.Make(ids, {});
      EXPECT_TRUE(features.images.equal(Network()(images.images)));
      EXPECT_TRUE(features.labels.equal(images.labels));
      EXPECT_EQ(features.gathered, images.gathered);
    }
  }
  EXPECT_EQ(network_.sizes, (std::vector<int64_t>{4, 3}));
}

}  // namespace
}  // namespace mtrun::trainers
