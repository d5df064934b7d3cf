// Real photographs of all sizes: parts of those that Debian's mate-backgrounds carries, cut out at their own
// resolution.
#pragma once

#include <string>
#include <vector>

#include "datasets/images/image.h"

namespace mtrun::datasets::test {

/// The twelve photographs, by name; none where the package is not installed.
std::vector<std::string> PhotographFiles();

/// A part of one of them as a file of its own.
struct PhotographPart {
  size_t photograph = 0;  // the place of its file in PhotographFiles()
  ImageSize size;
  std::string extension;  // ".jpg", each fifth ".png"
  std::string bytes;
};

/// `each` parts of each of the first `photographs`, one photograph after the other; sides of `shortest` to
/// `longest` pixels, each by itself, and places are drawn: the same ones every time.
std::vector<PhotographPart> CutPhotographs(size_t photographs, int each, int shortest, int longest);

}  // namespace mtrun::datasets::test
