#include "trainers/tasks/png.h"

#include <vector>

#include <zlib.h>

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

constexpr uint8_t kBitsPerChannel = 8, kRgb = 2, kNoFilter = 0;

void AppendBigEndian(std::string& out, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(value >> shift));
}

/// Length, kind, data, and the checksum of kind and data.
void AppendChunk(std::string& out, const std::string& kind, const std::string& data) {
  AppendBigEndian(out, static_cast<uint32_t>(data.size()));
  const std::string checked = kind + data;
  out += checked;
  AppendBigEndian(
      out, static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size())));
}

std::string Deflate(const std::string& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string out(size, 0);
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
                static_cast<uLong>(raw.size()), Z_BEST_SPEED);
  MT_CHECK(status == Z_OK) << "zlib " << status;
  out.resize(size);
  return out;
}

}  // namespace

std::string EncodePng(int width, int height, absl::Span<const uint8_t> rgb) {
  const size_t row = 3 * static_cast<size_t>(width);
  MT_CHECK(width > 0 && height > 0 && rgb.size() == row * static_cast<size_t>(height));
  std::string header, pixels;
  AppendBigEndian(header, static_cast<uint32_t>(width));
  AppendBigEndian(header, static_cast<uint32_t>(height));
  for (const uint8_t field : {kBitsPerChannel, kRgb, uint8_t{0}, uint8_t{0}, uint8_t{0}})
    header.push_back(static_cast<char>(field));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    pixels.push_back(static_cast<char>(kNoFilter));
    pixels.append(reinterpret_cast<const char*>(rgb.data()) + y * row, row);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  AppendChunk(out, "IHDR", header);
  AppendChunk(out, "IDAT", Deflate(pixels));
  AppendChunk(out, "IEND", "");
  return out;
}

}  // namespace mtrun::trainers
