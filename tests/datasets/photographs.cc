#include "tests/datasets/photographs.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/status_macros.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets::test {
namespace {

constexpr char kFolder[] = "/usr/share/backgrounds/mate/nature";
constexpr int kQuality = 92;
constexpr int kPngEvery = 5;

int Draw(std::mt19937_64& random, int from, int to) {
  return from + static_cast<int>(random() % static_cast<uint64_t>(to - from + 1));
}

}  // namespace

std::vector<std::string> PhotographFiles() {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
    if (entry.path().extension() == ".jpg") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<PhotographPart> CutPhotographs(size_t photographs, int each, int shortest, int longest) {
  const std::vector<std::string> files = PhotographFiles();
  MT_CHECK(photographs <= files.size()) << files.size() << " photographs in " << kFolder;
  std::mt19937_64 random(1);
  std::vector<PhotographPart> parts;
  for (size_t i = 0; i < photographs; ++i) {
    const auto whole = DecodeJpeg(Read(files[i]));
    MT_CHECK(whole.ok()) << files[i] << ": " << whole.status();
    for (int number = 0; number < each; ++number) {
      const ImageSize size{Draw(random, shortest, longest), Draw(random, shortest, longest)};
      const int top = Draw(random, 0, whole->size.height - size.height);
      const int left = Draw(random, 0, whole->size.width - size.width);
      const RgbImage image = Crop(*whole, {top, left, size.height, size.width});
      const bool png = number % kPngEvery == kPngEvery - 1;
      parts.push_back({i, size, png ? ".png" : ".jpg", png ? EncodePng(image) : EncodeJpeg(image, kQuality)});
    }
  }
  return parts;
}

}  // namespace mtrun::datasets::test
