#include "datasets/images/png.h"

#include <csetjmp>
#include <cstring>
#include <vector>

#include <png.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

constexpr size_t kSignatureBytes = 8;

/// libpng's objects for reading, with errors as absl::Status: libpng leaves a failed call by longjmp.
class PngReader {
 public:
  explicit PngReader(std::string_view file) : rest_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    MT_CHECK(info_ != nullptr) << "no memory for libpng";
    png_set_read_fn(png_, this, OnRead);
    png_set_user_limits(png_, kMaxImageSide, kMaxImageSide);
    // Texts, profiles and the like do not change pixels and can be bombs themselves.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

  /// Runs calls of libpng. REQUIRES: no object in `body` with a destructor is alive during a call.
  template <typename Body>
  absl::Status Call(Body body) {
    if (setjmp(jump_) != 0) return absl::DataLossError(absl::StrCat("damaged PNG: ", message_));
    body();
    return absl::OkStatus();
  }

 private:
  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.message_, message, sizeof self.message_ - 1);
    std::longjmp(self.jump_, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnRead(png_structp png, png_bytep out, size_t size) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self.rest_.size()) png_error(png, "truncated");
    std::memcpy(out, self.rest_.data(), size);
    self.rest_.remove_prefix(size);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char message_[128] = {};
};

absl::StatusOr<ImageSize> BeginPng(PngReader& reader, std::string_view file, const DecodeLimits& limits) {
  if (!IsPng(file)) return absl::InvalidArgumentError("not a PNG image");
  MT_RETURN_IF_ERROR(reader.Call([&] { png_read_info(reader.png(), reader.info()); }));
  const int64_t height = png_get_image_height(reader.png(), reader.info());
  const int64_t width = png_get_image_width(reader.png(), reader.info());
  MT_RETURN_IF_ERROR(CheckLimits(height, width, limits));
  return ImageSize{static_cast<int>(height), static_cast<int>(width)};
}

/// Requests rows of 8-bit RGB for every kind of PNG.
void AskForRgb(png_structp png, png_infop info) {
  png_set_strip_16(png);
  png_set_expand(png);  // palettes, fewer than 8 bits
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

void OnWrite(png_structp png, png_bytep bytes, size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
}

void OnFlush(png_structp) {}

}  // namespace

bool IsPng(std::string_view file) {
  return file.substr(0, kSignatureBytes) == std::string_view("\x89PNG\r\n\x1A\n", kSignatureBytes);
}

absl::StatusOr<ImageSize> PngSize(std::string_view file) {
  PngReader reader(file);
  return BeginPng(reader, file, {.max_pixels = INT64_MAX});
}

absl::StatusOr<RgbImage> DecodePng(std::string_view file, const DecodeLimits& limits) {
  PngReader reader(file);
  MT_ASSIGN_OR_RETURN(const ImageSize size, BeginPng(reader, file, limits));
  const size_t stride = size_t{3} * size.width;
  MT_RETURN_IF_ERROR(reader.Call([&] {
    AskForRgb(reader.png(), reader.info());
    if (png_get_rowbytes(reader.png(), reader.info()) != stride) png_error(reader.png(), "unknown layout");
  }));
  RgbImage image = MakeImage(size);
  std::vector<png_bytep> rows(static_cast<size_t>(size.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * stride;
  MT_RETURN_IF_ERROR(reader.Call([&] {
    png_read_image(reader.png(), rows.data());
    png_read_end(reader.png(), nullptr);
  }));
  return image;
}

std::string EncodePng(const RgbImage& image) {
  const ImageSize& size = image.size;
  MT_CHECK(size.pixels() > 0 && image.pixels.size() == static_cast<size_t>(3 * size.pixels()));
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  MT_CHECK(info != nullptr) << "no memory for libpng";
  if (setjmp(png_jmpbuf(png)) != 0) {
    MT_CHECK(false) << "libpng cannot write " << SizeText(size);
  }
  png_set_write_fn(png, &file, OnWrite, OnFlush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int y = 0; y < size.height; ++y) png_write_row(png, image.pixels.data() + size_t{3} * y * size.width);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace mtrun::datasets
