#include "trainers/program/description.h"

#include <gmock/gmock.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

const Description kExample{.program = "resnet18",
                           .classes = {"cat, tabby", "dög", "\"frog\""},
                           .image_size = 224,
                           .input_size = 32,
                           .images = {.height = 28,
                                      .width = 32,
                                      .varies = false,
                                      .pixels = true,
                                      .orientation = datasets::kAsStored},
                           .part = 0.875,
                           .settings = {{"normalize", "imagenet"}, {"train", "all"}}};

TEST(Description, RoundTripsThroughAFile) {
  const auto read = DescriptionOf(ToMetadata(kExample));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kExample);
}

TEST(Description, ImagesAreTurnedUnlessTheTrainingImagesWereNot) {
  EXPECT_FALSE(kExample.turns());
  for (const char* rule : {"", datasets::kTurnedUpright})
    EXPECT_TRUE(Description{.images = {.orientation = rule}}.turns());
  EXPECT_EQ(ToMetadata(Description{}).count("orientation"), 0U) << "as in files of earlier releases";
}

TEST(Description, FileOfAnEarlierReleaseHasNoDescription) {
  EXPECT_TRUE(absl::IsNotFound(DescriptionOf({{"program", "cnnA"}, {"steps", "10"}}).status()));
}

TEST(Description, MalformedFieldIsNamed) {
  for (const auto& [name, text] : std::map<std::string, std::string>{{"classes", "[1]"},
                                                                     {"classes", "\"a\""},
                                                                     {"image_size", "0"},
                                                                     {"input_size", "-4"},
                                                                     {"data_width", "1e9"},
                                                                     {"part", "0"},
                                                                     {"orientation", "left"},
                                                                     {"settings", "{\"a\":1}"}}) {
    auto metadata = ToMetadata(kExample);
    metadata[name] = text;
    EXPECT_THAT(std::string(DescriptionOf(metadata).status().message()), HasSubstr(name)) << text;
  }
}

TEST(Description, ImagesAreResizedToTheTrainingSize) {
  EXPECT_EQ(kExample.target(), (datasets::ImageSize{28, 32}));
  Description photos = kExample;
  photos.input_size = 224;
  photos.images.varies = true;
  EXPECT_EQ(photos.target(), (datasets::ImageSize{224, 224}));
  Description large = kExample;
  large.images.height = large.images.width = 64;
  EXPECT_EQ(large.target(), (datasets::ImageSize{32, 32}));
}

/// As in an evaluation, files are cropped to a square, pixels resized whole, and small images unchanged.
TEST(Description, ShowsTheSamePartAsAnEvaluation) {
  Description files{.input_size = 32, .images = {.height = 48, .width = 64}}, pixels = files, small = files;
  pixels.images.pixels = true;
  small.input_size = 64;
  EXPECT_EQ(files.Shown({48, 64}), (datasets::ImageBox{0, 8, 48, 48}));
  EXPECT_EQ(pixels.Shown({48, 64}), (datasets::ImageBox{0, 0, 48, 64}));
  EXPECT_EQ(pixels.Shown({96, 64}), (datasets::ImageBox{24, 0, 48, 64})) << "as the training's shape";
  EXPECT_EQ(small.Shown({48, 64}), (datasets::ImageBox{0, 0, 48, 64}));
  files.part = pixels.part = small.part = 0.5;
  EXPECT_EQ(files.Shown({48, 64}), (datasets::ImageBox{12, 20, 24, 24}));
  EXPECT_EQ(pixels.Shown({48, 64}), (datasets::ImageBox{0, 0, 48, 64}))
      << "an evaluation knows no part there";
  EXPECT_EQ(small.Shown({48, 64}), (datasets::ImageBox{0, 0, 48, 64}));
}

}  // namespace
}  // namespace mtrun::trainers
