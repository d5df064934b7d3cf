// Fast decodes of baseline JPEGs: their samples, their pixels, and the files that they leave to libjpeg.
#include "datasets/images/jpeg_crop.h"

#include <array>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/jpeg_planes.h"
#include "datasets/images/resample.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"
#include "tests/datasets/images/samplings.h"
#include "tests/datasets/photographs.h"

namespace mtrun::datasets {
namespace {

using test::Edges;
using test::EncodeSampled;
using test::Sampling;
using test::Writing;

/// The samplings that DecodeJpegCrop takes.
constexpr std::array<Sampling, 4> kPlain = {{{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {2, 2, 1, 1}}};

bool IsPlain(const Sampling& sampling) {
  const bool small = sampling.across <= 2 && sampling.down <= 2;
  return small && sampling.colour_across == 1 && sampling.colour_down == 1;
}

ImageSize RandomSize(std::mt19937_64& random, int most) {
  return {static_cast<int>(1 + random() % most), static_cast<int>(1 + random() % most)};
}

ImageBox RandomBox(std::mt19937_64& random, const ImageSize& size) {
  ImageBox box{.height = static_cast<int>(1 + random() % size.height),
               .width = static_cast<int>(1 + random() % size.width)};
  box.top = static_cast<int>(random() % (size.height - box.height + 1));
  box.left = static_cast<int>(random() % (size.width - box.width + 1));
  return box;
}

std::string Text(const Sampling& sampling, const ImageSize& size, const ImageBox& box) {
  return absl::StrCat(sampling.across, "x", sampling.down, ", ", SizeText(size), ", box ", box.top, " ",
                      box.left, " ", box.height, " ", box.width);
}

/// All samples of a component, row after row.
struct Samples {
  int width = 0, height = 0;
  std::vector<uint8_t> bytes;
};

/// Returns what libjpeg decodes, before it makes pixels.
std::array<Samples, 3> LibjpegSamples(const std::string& file, int eighths) {
  std::array<Samples, 3> all;
  JpegReader reader(file);
  jpeg_decompress_struct& library = reader.library();
  EXPECT_TRUE(reader.Call([&] { jpeg_read_header(&library, TRUE); }).ok());
  library.raw_data_out = TRUE;
  library.dct_method = JDCT_ISLOW;
  library.scale_num = static_cast<unsigned>(eighths);
  library.scale_denom = 8;
  EXPECT_TRUE(reader.Call([&] { jpeg_start_decompress(&library); }).ok());
  const int lines = library.max_v_samp_factor * library.min_DCT_scaled_size;
  std::array<std::vector<uint8_t>, 3> strips;
  std::array<std::vector<JSAMPROW>, 3> rows;
  std::array<JSAMPARRAY, 3> planes;
  for (int c = 0; c < 3; ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    const int width = static_cast<int>(info.width_in_blocks) * info.DCT_scaled_size;
    const int height = info.v_samp_factor * info.DCT_scaled_size;
    // libjpeg writes whole units.
    strips[c].resize(static_cast<size_t>(height) * (width + 64));
    for (int y = 0; y < height; ++y)
      rows[c].push_back(strips[c].data() + static_cast<size_t>(y) * (width + 64));
    planes[c] = rows[c].data();
    all[c].width = width;
    all[c].height = static_cast<int>(info.height_in_blocks) * info.DCT_scaled_size;
  }
  while (library.output_scanline < library.output_height) {
    EXPECT_TRUE(
        reader.Call([&] { jpeg_read_raw_data(&library, planes.data(), static_cast<JDIMENSION>(lines)); })
            .ok());
    for (int c = 0; c < 3; ++c) {
      for (const uint8_t* row : rows[c]) all[c].bytes.insert(all[c].bytes.end(), row, row + all[c].width);
    }
  }
  return all;
}

/// Checks a random part of each component against libjpeg's samples.
void CheckSamples(std::mt19937_64& random, const std::string& file, int eighths) {
  const std::array<Samples, 3> expected = LibjpegSamples(file, eighths);
  JpegReader reader(file);
  jpeg_decompress_struct& library = reader.library();
  ASSERT_TRUE(reader.Call([&] { jpeg_read_header(&library, TRUE); }).ok());
  ASSERT_TRUE(HasPlainPlanes(library));
  const bool larger = library.max_h_samp_factor == 2 && library.max_v_samp_factor == 2 && eighths < 8;
  std::array<PlanePart, 3> wanted;
  for (int c = 0; c < 3; ++c) {
    const ImageBox box = RandomBox(random, {expected[c].height, expected[c].width});
    wanted[c] = {.eighths = c > 0 && larger ? 2 * eighths : eighths,
                 .columns = {box.left, box.left + box.width},
                 .rows = {box.top, box.top + box.height}};
  }
  const auto planes = DecodePlanes(library, wanted);
  ASSERT_TRUE(planes.has_value());
  for (int c = 0; c < 3; ++c) {
    for (int x = wanted[c].columns.begin; x < wanted[c].columns.end; ++x) {
      for (int y = wanted[c].rows.begin; y < wanted[c].rows.end; ++y)
        ASSERT_EQ(*(*planes)[c].at(x, y), expected[c].bytes[size_t(y) * expected[c].width + x])
            << "component " << c << " column " << x << " row " << y << ", " << eighths << " eighths";
    }
  }
}

TEST(JpegCropTest, SamplesEqualLibjpegs) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  for (const Sampling& sampling : kPlain) {
    for (int round = 0; round < 16; ++round) {
      const ImageSize size = RandomSize(random, 100);
      const Writing how{.quality = std::array{1, 30, 75, 92, 100}[random() % 5],
                        .restart_interval = static_cast<int>(round % 3 == 0 ? 1 + random() % 9 : 0),
                        .optimize = round % 2 == 0};
      SCOPED_TRACE(absl::StrCat(Text(sampling, size, {}), ", quality ", how.quality, ", seed ", seed));
      CheckSamples(random, EncodeSampled(Edges(size, random()), sampling, how), 1 << random() % 4);
      if (HasFatalFailure()) return;
    }
  }
}

/// Compares crops with the resized result of libjpeg's part. They differ by rounding, and where colours
/// exceed what RGB can show.
TEST(JpegCropTest, CropsAreCloseToResizedParts) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  int compared = 0;
  for (const Sampling& sampling : test::AllSamplings()) {
    const int rounds = IsPlain(sampling) ? 40 : 1;
    for (int round = 0; round < rounds; ++round) {
      const ImageSize size = RandomSize(random, 200);
      const bool progressive = round % 8 == 7;
      const std::string file = EncodeSampled(Edges(size, random()), sampling, {.progressive = progressive});
      const ImageBox box = RandomBox(random, size);
      const int shrink = 1 << random() % 4;
      const ImageSize target{std::max(1, box.height / shrink), std::max(1, box.width / shrink)};
      SCOPED_TRACE(absl::StrCat(Text(sampling, size, box), ", 1/", shrink, ", seed ", seed));
      const auto crop = DecodeJpegCrop(file, box, target);
      ASSERT_EQ(crop.has_value(), IsPlain(sampling) && !progressive);
      if (!crop) continue;
      const auto part = DecodeJpegPart(file, box, target);
      ASSERT_TRUE(part.ok()) << part.status();
      const EighthsBox scaled{.top = int64_t{box.top} * part->eighths - int64_t{8} * part->top,
                              .left = int64_t{box.left} * part->eighths - int64_t{8} * part->left,
                              .height = int64_t{box.height} * part->eighths,
                              .width = int64_t{box.width} * part->eighths};
      const test::Difference apart = test::Compare(*crop, ResizeBilinear(part->image, scaled, target));
      EXPECT_LE(apart.mean, 1 + 1e-6) << apart.largest;  // all of a few pixels can differ by a level
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

/// The versions of fast decoding name exactly these pixels: if they change, kFastPixelsVersion must change.
TEST(JpegCropTest, PixelsMatchTheVersion) {
  Sha256 digest;
  for (const char* name : {"chroma_420.jpg", "chroma_444.jpg"}) {
    for (const int side : {3, 9, 20, 64}) {
      const auto crop = DecodeJpegCrop(test::GoldenFile(name), {5, 8, 33, 50}, {side, side + 3});
      ASSERT_TRUE(crop.has_value());
      digest.Update({reinterpret_cast<const char*>(crop->pixels.data()), crop->pixels.size()});
    }
  }
  EXPECT_EQ(digest.Hex(), "781d97d7c01566b8321ecaf7ff2f5cfe4bf6e58339e42bd1b226fc15eb6b868a");
  EXPECT_STREQ(kFastPixelsVersion, "2");
}

/// Returns the mean difference in levels of a fast and an exact decode to 224 pixels a side.
double LevelsFromExact(const std::string& file, const ImageBox& box) {
  const auto exact = DecodeBox(file, box, {224, 224}, DecodeMode::kExact);
  const auto crop = DecodeJpegCrop(file, box, {224, 224});
  EXPECT_TRUE(exact.ok() && crop.has_value()) << exact.status();
  return exact.ok() && crop ? test::Compare(*exact, *crop).mean : 256;
}

TEST(JpegCropTest, LevelsFromExactAreLessThanOneInTheMean) {
  const RgbImage photo =
      ResizeBilinear(test::GoldenImage("photo.png"), InEighths({0, 0, 47, 61}), {376, 488});
  for (const RgbImage& image : {photo, Edges({376, 488}, test::Seed())}) {
    for (const Sampling& sampling : kPlain) {
      const std::string file = EncodeSampled(image, sampling, {.quality = 90});
      for (const ImageBox& box : {ImageBox{0, 0, 376, 488}, {30, 41, 300, 333}, {7, 9, 90, 60}})
        EXPECT_LT(LevelsFromExact(file, box), 1) << Text(sampling, image.size, box);
    }
  }
}

/// Parts of photographs of 256 to 500 pixels, cut as --random_resized_crop cuts them.
TEST(JpegCropPhotographTest, LevelsFromExactAreLessThanOneInTheMean) {
  if (test::PhotographFiles().empty()) GTEST_SKIP() << "no photographs here: tools/setup --test-tools";
  std::mt19937_64 random(1);
  double sum = 0;
  int images = 0;
  for (const test::PhotographPart& part : test::CutPhotographs(12, 10, 256, 500)) {
    if (part.extension != ".jpg") continue;
    ImageBox box = RandomBox(random, part.size);
    while (box.height * 4 < part.size.height || box.width * 4 < part.size.width)
      box = RandomBox(random, part.size);
    sum += LevelsFromExact(part.bytes, box);
    ++images;
  }
  RecordProperty("levels", absl::StrCat(sum / images));
  EXPECT_EQ(images, 96);
  EXPECT_LT(sum / images, 0.5);
}

/// libjpeg gets a damaged file and says what is wrong. DecodeJpegCrop takes no file that libjpeg refuses.
TEST(JpegCropTest, DamagedFilesAreLeftToLibjpeg) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  int left = 0, taken = 0;
  for (int round = 0; round < 2000; ++round) {
    const Sampling& sampling = kPlain[random() % kPlain.size()];
    const ImageSize size = RandomSize(random, 60);
    std::string file = EncodeSampled(Edges(size, random()), sampling,
                                     {.restart_interval = static_cast<int>(random() % 4), .optimize = true});
    for (uint64_t n = random() % 3; n > 0; --n)
      file[2 + random() % (file.size() - 2)] = static_cast<char>(random());
    if (random() % 4 == 0) file.resize(2 + random() % (file.size() - 2));
    const auto claimed = JpegSize(file);
    if (!claimed.ok() || claimed->pixels() > 1 << 16) continue;
    ImageBox box = RandomBox(random, *claimed);
    box.height = claimed->height - box.top;  // libjpeg reads further below a part than it needs
    const auto crop = DecodeJpegCrop(file, box, {7, 5});
    const auto part = DecodeJpegPart(file, box, {7, 5});
    if (crop) {
      EXPECT_TRUE(part.ok()) << part.status() << ", seed " << seed << " round " << round;
    }
    ++(crop ? taken : left);
  }
  EXPECT_GT(left, 200);
  EXPECT_GT(taken, 200);
}

TEST(JpegCropTest, OtherImagesAreLeftToLibjpeg) {
  for (const char* name : {"grey.jpg", "cmyk.jpg", "progressive.jpg", "photo.png"})
    EXPECT_FALSE(DecodeJpegCrop(test::GoldenFile(name), {0, 0, 8, 8}, {8, 8}).has_value()) << name;
  const std::string file = test::GoldenFile("chroma_420.jpg");
  EXPECT_TRUE(DecodeJpegCrop(file, {0, 0, 47, 61}, {8, 8}).has_value());
  EXPECT_FALSE(DecodeJpegCrop(file, {20, 20, 40, 20}, {8, 8}).has_value()) << "the box is not inside";
  EXPECT_FALSE(DecodeJpegCrop(file, {0, 0, 47, 61}, {8, 8}, {.max_pixels = 100}).has_value());
  const std::string wide = EncodeSampled(Edges({20, 200}, 1), {});
  EXPECT_FALSE(DecodeJpegCrop(wide, {0, 0, 20, 200}, {20, 1}).has_value()) << "one side shrinks a lot";
}

}  // namespace
}  // namespace mtrun::datasets
