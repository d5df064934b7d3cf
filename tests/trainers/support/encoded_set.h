// Small packed data sets of JPEG files, made by the test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::trainers::testing {

/// Writes `<folder>/<name>`: splits train, with so many images in each of its shards, and test, in one; JPEG
/// files of different sizes from 40 to 79 pixels a side, labels i mod 10, each class with its own bright
/// part; with a larger `scale` so many times as long a side, and noise that makes the files large. Its path.
/// Fails the test on an error.
std::string WriteEncodedSet(const std::string& folder, const std::string& name,
                            const std::vector<int64_t>& train, int64_t test, int scale = 1);

}  // namespace mtrun::trainers::testing
