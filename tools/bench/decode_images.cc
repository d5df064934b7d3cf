// Our side of tools/bench/decode: repeatedly decodes the same parts of the same files in one thread, and
// prints images per second of processor time.
//
//   decode_images exact|fast|whole TARGET SECONDS [PIXELS] < JOBS
//
// A line of JOBS is TOP LEFT HEIGHT WIDTH PATH. `whole` decodes without cropping or resizing, as
// libjpeg-turbo does. PIXELS receives the concatenated results.
#include <malloc.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"

namespace mtrun::datasets {
namespace {

struct Work {
  std::string file;
  ImageBox box;
};

std::vector<Work> ReadJobs() {
  std::vector<Work> work;
  ImageBox box;
  std::string path;
  while (std::cin >> box.top >> box.left >> box.height >> box.width &&
         std::getline(std::cin >> std::ws, path)) {
    std::ifstream file(path, std::ios::binary);
    work.push_back({{std::istreambuf_iterator<char>(file), {}}, box});
  }
  return work;
}

double ProcessorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

absl::StatusOr<RgbImage> Decode(const Work& work, const std::string& mode, int target) {
  if (mode == "whole") return DecodeJpeg(work.file);
  return DecodeBox(work.file, work.box, {target, target},
                   mode == "fast" ? DecodeMode::kFast : DecodeMode::kExact);
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: decode_images exact|fast|whole TARGET SECONDS [PIXELS] < JOBS\n");
    return 2;
  }
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // as in the trainers: freed memory is kept
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  const std::string mode = argv[1];
  const int target = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  const std::vector<Work> work = ReadJobs();
  std::ofstream pixels;
  if (argc > 4) pixels.open(argv[4], std::ios::binary);
  for (const Work& one : work) {  // one warm-up pass
    const absl::StatusOr<RgbImage> image = Decode(one, mode, target);
    if (!image.ok()) {
      std::fprintf(stderr, "%s\n", std::string(image.status().message()).c_str());
      return 1;
    }
    if (argc > 4)
      pixels.write(reinterpret_cast<const char*>(image->pixels.data()),
                   static_cast<std::streamsize>(image->pixels.size()));
  }
  const double began = ProcessorSeconds();
  int64_t images = 0;
  while (!work.empty() && ProcessorSeconds() - began < seconds) {
    for (const Work& one : work) images += Decode(one, mode, target).ok();
  }
  std::printf("%.1f\n", static_cast<double>(images) / (ProcessorSeconds() - began));
  return 0;
}

}  // namespace
}  // namespace mtrun::datasets

int main(int argc, char** argv) { return mtrun::datasets::Main(argc, argv); }
