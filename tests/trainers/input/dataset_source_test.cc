#include "trainers/input/dataset_source.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::trainers {
namespace {

/// A synchronised round without samples needs an empty batch, even before any image has arrived.
TEST(DatasetSourceTest, EmptyBatchHasTheUsualTypesAndNeedsNoImage) {
  const support::TemporaryFolder folder;
  const std::string set =
      testing::WritePackedSet(folder.path(), "set", {.train = 8, .test = 1}, testing::VariedPixel);
  const auto all = datasets::PackedSplit::Open(set, "train"),
             none = datasets::PackedSplit::OpenIndex(set, "train");
  ASSERT_TRUE(all.ok() && none.ok());
  ASSERT_FALSE(none->has(0));
  SourceOptions options;
  options.plan = {.global_batch = 8, .micro_batch = 4};
  BatchOptions batch{.image_size = 64, .dtype = at::kDouble, .format = at::MemoryFormat::ChannelsLast};
  for (const bool grows : {false, true}) {
    if (grows) options.reading.growth = {.from = 32, .first = 1, .end = 3};
    batch.grows = grows;
    DatasetSource full(*all, options, batch), waiting(*none, options, batch);
    for (const int64_t step : {0, 1, 5}) {
      const Batch full_batch = full.Make(step, 0), empty = waiting.Empty(step);
      const at::Tensor images = full_batch.images.narrow(0, 0, 0), labels = full_batch.labels.narrow(0, 0, 0);
      EXPECT_EQ(empty.images.sizes(), images.sizes()) << step;
      EXPECT_EQ(empty.images.strides(), images.strides());
      EXPECT_EQ(empty.images.scalar_type(), images.scalar_type());
      EXPECT_EQ(empty.labels.sizes(), labels.sizes());
      EXPECT_EQ(empty.labels.scalar_type(), labels.scalar_type());
      EXPECT_EQ(empty.gathered, datasets::SampleSum());
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers
