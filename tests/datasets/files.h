// Small files for tests: a temporary folder, archives, gzip, images.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace mtrun::datasets::test {

/// For imports that are not cancelled.
inline const std::atomic<bool> kGoOn = false;

/// A new folder under TMPDIR, removed by the destructor.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Writes a file and creates its folders.
void Write(const std::string& path, const std::string& bytes);
std::string Read(const std::string& path);
/// Returns all files below a folder: relative path to bytes.
std::map<std::string, std::string> ReadTree(const std::string& folder);
std::vector<std::string> Names(const std::string& folder);

std::string Gzip(const std::string& bytes);
/// Writes a tar.gz with these entries, in this order.
void WriteTarGz(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries);

/// Writes an archive with these entries, in this order. Its name (.tar, .tar.gz, .zip) determines the format.
/// In a zip archive, JPEG files are stored and other files deflated.
void WriteArchive(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries);

/// Returns a deterministic test picture: uint8 [height, width, 3], RGB.
std::vector<uint8_t> Picture(int height, int width, int number);
/// Encodes a file: ".png" or ".jpg".
std::string Encode(const std::string& extension, absl::Span<const uint8_t> rgb, int height, int width);

/// Returns MTRUN_SEED or a random number, and prints it.
uint64_t Seed();

}  // namespace mtrun::datasets::test
