#include "datasets/images/image_names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mtrun::datasets {
namespace {

// Those of torchvision's ImageFolder, and the other Netpbm names.
constexpr const char* kExtensions[] = {"jpg",  "jpeg", "png", "webp", "bmp", "tif",
                                       "tiff", "ppm",  "pgm", "pbm",  "pnm"};

}  // namespace

bool IsImageExtension(std::string_view extension) {
  return std::ranges::any_of(kExtensions, [extension](const char* known) {
    return absl::EqualsIgnoreCase({extension.data(), extension.size()}, known);
  });
}

bool HasImageName(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && IsImageExtension(name.substr(dot + 1));
}

std::string ImageExtensions() {
  std::string text;
  for (const char* extension : kExtensions) {
    const bool last = extension == *std::rbegin(kExtensions);
    absl::StrAppend(&text, text.empty() ? "." : last ? " or ." : ", .", extension);
  }
  return text;
}

}  // namespace mtrun::datasets
