// Real photographs of all sizes: crops, at full resolution, of those in Debian's mate-backgrounds.
#pragma once

#include <string>
#include <vector>

#include "datasets/images/image.h"

namespace mtrun::datasets::test {

/// Returns the twelve photographs, by name; empty if the package is not installed.
std::vector<std::string> PhotographFiles();

/// A part of a photograph as a separate file.
struct PhotographPart {
  size_t photograph = 0;  // index in PhotographFiles()
  ImageSize size;
  std::string extension;  // ".jpg", every fifth ".png"
  std::string bytes;
};

/// Cuts `each` parts of each of the first `photographs`, one photograph after the other. Sides of `shortest`
/// to `longest` pixels and positions are drawn independently, with a fixed seed.
std::vector<PhotographPart> CutPhotographs(size_t photographs, int each, int shortest, int longest);

}  // namespace mtrun::datasets::test
