// Pictures as JPEG files of every sampling that the format has.
#pragma once

#include <cstdio>  // jpeglib.h forgets it
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "datasets/images/image.h"

namespace mtrun::datasets::test {

/// Blocks per unit of brightness and of both colours, across and down.
struct Sampling {
  int across = 1, down = 1, colour_across = 1, colour_down = 1;
};

/// Lists all samplings that the standard permits with at most ten blocks a unit and whole ratios.
inline std::vector<Sampling> AllSamplings() {
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
inline RgbImage Edges(const ImageSize& size, uint64_t seed) {
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

/// How to write a file.
struct Writing {
  bool progressive = false;
  int quality = 92;
  int restart_interval = 0;  // units
  bool optimize = false;     // code tables of its own
};

inline std::string EncodeSampled(const RgbImage& image, const Sampling& sampling, const Writing& how = {}) {
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
  jpeg_set_quality(&library, how.quality, TRUE);
  library.restart_interval = static_cast<unsigned>(how.restart_interval);
  library.optimize_coding = how.optimize ? TRUE : FALSE;
  library.comp_info[0].h_samp_factor = sampling.across;
  library.comp_info[0].v_samp_factor = sampling.down;
  for (int c : {1, 2}) {
    library.comp_info[c].h_samp_factor = sampling.colour_across;
    library.comp_info[c].v_samp_factor = sampling.colour_down;
  }
  if (how.progressive) jpeg_simple_progression(&library);
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

}  // namespace mtrun::datasets::test
