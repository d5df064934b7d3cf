// Small packed data sets of JPEG files, created by the test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::trainers::testing {

/// Writes `<folder>/<name>` and returns its path. `train` gives the number of images in each shard of the
/// split train; `test` images are in one shard. JPEG files have different sizes from 40 to 79 pixels a side
/// and labels i mod 10; each class has its own bright part. `scale` multiplies the sides, and a value above 1
/// adds noise that makes the files large. Fails the test on an error.
std::string WriteEncodedSet(const std::string& folder, const std::string& name,
                            const std::vector<int64_t>& train, int64_t test, int scale = 1);

}  // namespace mtrun::trainers::testing
