// Fast decodes of parts against whole decodes, for every sampling that a JPEG can have.
#include <cstdio>
#include <cstdlib>
#include <random>

#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/resample.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"

namespace mtrun::datasets {
namespace {

/// Blocks per unit of brightness and of both colours, across and down.
struct Sampling {
  int across = 1, down = 1, colour_across = 1, colour_down = 1;
};

/// Lists all samplings that the standard permits with at most ten blocks a unit and whole ratios.
std::vector<Sampling> AllSamplings() {
  std::vector<Sampling> all;
  for (int code = 0; code < 256; ++code) {
    const Sampling one{code % 4 + 1, code / 4 % 4 + 1, code / 16 % 4 + 1, code / 64 + 1};
    const bool fits = one.across * one.down + 2 * one.colour_across * one.colour_down <= 10;
    const int across = std::max(one.across, one.colour_across), down = std::max(one.down, one.colour_down);
    const bool whole = across % one.across == 0 && down % one.down == 0 && across % one.colour_across == 0 &&
                       down % one.colour_down == 0;
    if (fits && whole) all.push_back(one);
  }
  return all;
}

/// Returns a picture with edges at which wrong neighbours show.
RgbImage Edges(const ImageSize& size, uint64_t seed) {
  std::mt19937_64 random(seed);
  RgbImage image = MakeImage(size);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const uint64_t shade = ((x / 5 + y / 7) * 2654435761U + seed) >> 3;
      for (int c = 0; c < 3; ++c) {
        image.pixels[3 * (size_t(y) * size.width + x) + c] =
            static_cast<uint8_t>((shade >> (8 * c)) % 200 + random() % 40);
      }
    }
  }
  return image;
}

std::string Encode(const RgbImage& image, const Sampling& sampling, bool progressive) {
  jpeg_compress_struct library = {};
  jpeg_error_mgr errors = {};
  library.err = jpeg_std_error(&errors);
  jpeg_create_compress(&library);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&library, &bytes, &size);
  library.image_height = static_cast<JDIMENSION>(image.size.height);
  library.image_width = static_cast<JDIMENSION>(image.size.width);
  library.input_components = 3;
  library.in_color_space = JCS_RGB;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, 92, TRUE);
  library.comp_info[0].h_samp_factor = sampling.across;
  library.comp_info[0].v_samp_factor = sampling.down;
  for (int c : {1, 2}) {
    library.comp_info[c].h_samp_factor = sampling.colour_across;
    library.comp_info[c].v_samp_factor = sampling.colour_down;
  }
  if (progressive) jpeg_simple_progression(&library);
  jpeg_start_compress(&library, TRUE);
  for (int y = 0; y < image.size.height; ++y) {
    auto* row = const_cast<uint8_t*>(image.pixels.data()) + size_t{3} * y * image.size.width;
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&library);
  std::free(bytes);
  return file;
}

/// Returns the whole image at a scale, without skipped rows or columns; empty if the scale does not occur.
RgbImage WholeAt(const std::string& file, const ImageSize& size, int eighths) {
  const ImageSize at_least{size.height * eighths / 8, size.width * eighths / 8};
  const auto part = DecodeJpegPart(file, {0, 0, size.height, size.width}, at_least);
  EXPECT_TRUE(part.ok()) << part.status();
  if (!part.ok() || part->eighths != eighths) return {};
  return part->image;
}

/// Checks a part of a file against its whole decode, pixel for pixel; returns whether there was one to check.
bool CheckPart(const std::string& file, const ImageSize& size, const ImageBox& box, const ImageSize& target) {
  const auto part = DecodeJpegPart(file, box, target);
  EXPECT_TRUE(part.ok()) << part.status();
  if (!part.ok()) return false;
  const RgbImage whole = part->eighths == 8 ? *DecodeJpeg(file) : WholeAt(file, size, part->eighths);
  if (whole.size.pixels() == 0) return false;
  const int top = box.top * part->eighths / 8, left = box.left * part->eighths / 8;
  const int bottom = ((box.top + box.height) * part->eighths + 7) / 8;
  const int right = ((box.left + box.width) * part->eighths + 7) / 8;
  const ImageBox shown{top, left, bottom - top, right - left};
  const ImageBox inner{top - part->top, left - part->left, shown.height, shown.width};
  EXPECT_TRUE(IsInside(inner, part->image.size));
  if (!IsInside(inner, part->image.size)) return false;
  EXPECT_EQ(test::Compare(Crop(part->image, inner), Crop(whole, shown)).largest, 0);
  return true;
}

// Regression: libjpeg-turbo before 3.0 reads beyond its rows if columns of a 4x2 or 2x4 JPEG are left out.
TEST(JpegSamplingTest, PartsEqualTheWholeImage) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  int checked = 0;
  for (const Sampling& sampling : AllSamplings()) {
    for (const bool progressive : {false, true}) {
      for (int round = 0; round < 3; ++round) {
        const ImageSize size{static_cast<int>(17 + random() % 150), static_cast<int>(17 + random() % 150)};
        const std::string file = Encode(Edges(size, random()), sampling, progressive);
        for (int boxes = 0; boxes < 6; ++boxes) {
          ImageBox box{.height = static_cast<int>(1 + random() % size.height),
                       .width = static_cast<int>(1 + random() % size.width)};
          box.top = static_cast<int>(random() % (size.height - box.height + 1));
          box.left = static_cast<int>(random() % (size.width - box.width + 1));
          const int shrink = 1 << random() % 4;
          const ImageSize target{std::max(1, box.height / shrink), std::max(1, box.width / shrink)};
          SCOPED_TRACE(absl::StrCat(sampling.across, "x", sampling.down, " ", sampling.colour_across, "x",
                                    sampling.colour_down, ", ", SizeText(size), ", box ", box.top, " ",
                                    box.left, " ", box.height, " ", box.width, ", 1/", shrink, ", seed ",
                                    seed));
          checked += CheckPart(file, size, box, target);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(checked, 500);
}

}  // namespace
}  // namespace mtrun::datasets
