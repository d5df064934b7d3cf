// Turns the fuzzer's bytes into files for code under test that needs files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/posix.h"

namespace mtrun::fuzz {

/// A file in memory with these bytes, during this object's lifetime.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  UniqueFd file_;
  std::string path_;
};

/// A folder of this process, removed at its end. Its files are written without waiting for the disk.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  const std::string& path() const { return path_; }
  /// Replaces the file `name`.
  void Put(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

/// Cuts `bytes` into `count` pieces; the lengths of all but the last come first, 16 bits each, little-endian.
std::vector<std::string_view> Cut(std::string_view bytes, size_t count);

}  // namespace mtrun::fuzz
