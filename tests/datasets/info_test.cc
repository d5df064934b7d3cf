#include "datasets/packed/info.h"

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(InfoTest, AlignedTables) {
  Index index{.height = 32, .width = 16, .classes = {"cat", "h\xC3\xA9ron"}};
  index.splits["test"] = {.class_counts = {1, 1}, .shards = {{2, 3000, std::string(64, 'a')}}};
  index.splits["train"] = {.class_counts = {1000, 234},
                           .shards = {{1000, 9000000, std::string(64, 'b')}, {234, 5, std::string(64, 'c')}}};
  EXPECT_EQ(InfoText("data/x", index),
            "data/x\n"
            "  image size  32x16x3 uint8 RGB\n"
            "  images      1,236\n"
            "  classes     2\n"
            "  bytes       9,003,005 in 3 shards\n"
            "  digest      " +
                IndexDigest(index) +
                "\n"
                "\n"
                "split                 images          shards           bytes\n"
                "test                       2               1           3,000\n"
                "train                  1,234               2       9,000,005\n"
                "\n"
                "class                   test           train\n"
                "cat                        1           1,000\n"
                "h\xC3\xA9ron                      1             234\n");
}

}  // namespace
}  // namespace mtrun::datasets
