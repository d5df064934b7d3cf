// The releases whose files tests/testdata/formats keeps, as parameters of tests.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace mtrun::support {

/// Returns the names of the folders, sorted; none if $MT_SOURCE_DIR, which ctest sets, is not set.
inline std::vector<std::string> Releases() {
  std::vector<std::string> releases;
  const char* source = std::getenv("MT_SOURCE_DIR");
  if (source == nullptr) return releases;
  for (std::filesystem::directory_iterator entry(std::string(source) + "/tests/testdata/formats"), end;
       entry != end; ++entry) {
    if (entry->is_directory()) releases.push_back(entry->path().filename());
  }
  std::sort(releases.begin(), releases.end());
  return releases;
}

/// Returns the release as the name of a test.
inline std::string ReleaseTestName(const ::testing::TestParamInfo<std::string>& release) {
  std::string name = release.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace mtrun::support
