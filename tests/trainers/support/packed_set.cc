#include "tests/trainers/support/packed_set.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "datasets/packed/packed_writer.h"

namespace mtrun::trainers::testing {
namespace {

void PutSplit(datasets::PackedWriter& writer, const std::string& split, int64_t first_image, int64_t count,
              const SetShape& shape, const std::function<int64_t(int64_t)>& label, const Pixel& pixel) {
  std::vector<int64_t> labels;
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(label(first_image + i));
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) {
        for (int c = 0; c < 3; ++c) pixels.push_back(pixel(first_image + i, labels.back(), y, x, c));
      }
    }
  }
  const absl::Status put = writer.Put(split, 0, labels, pixels);
  ASSERT_TRUE(put.ok()) << put;
}

}  // namespace

std::string WritePackedSet(const std::string& folder, const std::string& name, const SetShape& shape,
                           const Pixel& pixel) {
  const auto label = [&](int64_t i) { return (i < shape.train ? i : i - shape.train) % shape.classes; };
  return WritePackedImages(folder, name, shape, label, pixel);
}

std::string WritePackedImages(const std::string& folder, const std::string& name, const SetShape& shape,
                              const std::function<int64_t(int64_t image)>& label, const Pixel& pixel) {
  datasets::PackedShape packed{
      .height = shape.height, .width = shape.width, .classes = {}, .splits = {{"train", shape.train}}};
  if (shape.test > 0) packed.splits["test"] = shape.test;
  for (int c = 0; c < shape.classes; ++c) packed.classes.push_back(absl::StrCat("class", c));
  const std::string path = absl::StrCat(folder, "/", name);
  auto writer = datasets::PackedWriter::Create(path, packed, {});
  EXPECT_TRUE(writer.ok()) << writer.status();
  PutSplit(**writer, "train", 0, shape.train, shape, label, pixel);
  if (shape.test > 0) PutSplit(**writer, "test", shape.train, shape.test, shape, label, pixel);
  const auto index = (*writer)->Finish();
  EXPECT_TRUE(index.ok()) << index.status();
  return path;
}

uint8_t VariedPixel(int64_t image, int64_t, int y, int x, int channel) {
  return static_cast<uint8_t>(image * 37 + y * 11 + x * 5 + channel * 83 + 3);
}

uint8_t LearnablePixel(int64_t image, int64_t label, int y, int x, int channel) {
  const bool bright = y / 8 == label / 4 && x / 8 == label % 4;
  const uint64_t noise = SplitMix64(static_cast<uint64_t>(((image * 64 + y) * 64 + x) * 3 + channel)) % 60;
  return static_cast<uint8_t>((bright ? 190 : 0) + noise);
}

}  // namespace mtrun::trainers::testing
