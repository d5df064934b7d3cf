// What the fuzzer's bytes become where code under test wants files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/posix.h"

namespace mtrun::fuzz {

/// A file in memory with these bytes, for as long as this lives.
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

/// `bytes` cut into `count` pieces: the lengths of all but the last stand in front, two bytes each, the lower
/// one first.
std::vector<std::string_view> Cut(std::string_view bytes, size_t count);

}  // namespace mtrun::fuzz
