#include "tests/datasets/files.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"

namespace mtrun::datasets::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  auto made = MakeTemporaryFolder("mtrun-data-");
  MT_CHECK(made.ok()) << made.status();
  path_ = *made;
}

TempFolder::~TempFolder() { fs::remove_all(path_); }

void Write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::map<std::string, std::string> ReadTree(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = Read(entry.path().string());
  }
  return files;
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string Gzip(const std::string& bytes) {
  z_stream stream{};
  MT_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) << "deflateInit2";
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  MT_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END) << "deflate";
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void WriteArchive(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries) {
  const std::string extension = fs::path(path).extension().string();
  archive* out = archive_write_new();
  if (extension == ".zip")
    archive_write_set_format_zip(out);
  else
    archive_write_set_format_ustar(out);
  if (extension == ".gz") archive_write_add_filter_gzip(out);
  MT_CHECK(archive_write_open_filename(out, path.c_str()) == ARCHIVE_OK) << path;
  for (const auto& [name, bytes] : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, name.back() == '/' ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    if (extension == ".zip" && fs::path(name).extension() == ".jpg")
      archive_write_zip_set_compression_store(out);
    else if (extension == ".zip")
      archive_write_zip_set_compression_deflate(out);
    archive_write_header(out, entry);
    archive_write_data(out, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
}

void WriteTarGz(const std::string& path, const std::vector<std::pair<std::string, std::string>>& entries) {
  WriteArchive(path, entries);
}

std::vector<uint8_t> Picture(int height, int width, int number) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.push_back(static_cast<uint8_t>(y * 8 + number * 31));
      pixels.push_back(static_cast<uint8_t>(x * 8 + number * 17));
      pixels.push_back(static_cast<uint8_t>(200 - number * 5));
    }
  }
  return pixels;
}

std::string Encode(const std::string& extension, absl::Span<const uint8_t> rgb, int height, int width) {
  const RgbImage image{.size = {height, width}, .pixels = {rgb.begin(), rgb.end()}};
  return extension == ".jpg" ? EncodeJpeg(image, 95) : EncodePng(image);
}

uint64_t Seed() {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::cout << "MTRUN_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace mtrun::datasets::test
