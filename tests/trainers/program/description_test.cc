#include "trainers/program/description.h"

#include <gmock/gmock.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

const Description kExample{.program = "resnet18",
                           .classes = {"cat, tabby", "dög", "\"frog\""},
                           .image_size = 224,
                           .input_size = 32,
                           .data_height = 28,
                           .data_width = 32,
                           .data_varies = false};

TEST(Description, SurvivesAFile) {
  const auto read = DescriptionOf(ToMetadata(kExample));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kExample);
}

TEST(Description, AnEarlierReleasesFileSaysNothing) {
  EXPECT_TRUE(absl::IsNotFound(DescriptionOf({{"program", "cnnA"}, {"steps", "10"}}).status()));
}

TEST(Description, WhatIsMalformedIsNamed) {
  for (const auto& [name, text] : std::map<std::string, std::string>{{"classes", "[1]"},
                                                                     {"classes", "\"a\""},
                                                                     {"image_size", "0"},
                                                                     {"input_size", "-4"},
                                                                     {"data_width", "1e9"}}) {
    auto metadata = ToMetadata(kExample);
    metadata[name] = text;
    EXPECT_THAT(std::string(DescriptionOf(metadata).status().message()), HasSubstr(name)) << text;
  }
}

TEST(Description, ImagesAreResizedToThoseOfTheTraining) {
  EXPECT_EQ(kExample.target(), (datasets::ImageSize{28, 32}));
  Description photos = kExample;
  photos.input_size = 224;
  photos.data_varies = true;
  EXPECT_EQ(photos.target(), (datasets::ImageSize{224, 224}));
  Description large = kExample;
  large.data_height = large.data_width = 64;
  EXPECT_EQ(large.target(), (datasets::ImageSize{32, 32}));
}

}  // namespace
}  // namespace mtrun::trainers
