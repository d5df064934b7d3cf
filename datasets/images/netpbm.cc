#include "datasets/images/netpbm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

constexpr int kMaxSample = 65535;
constexpr int64_t kMaxNumber = 9'999'999'999;  // ten digits

struct NetpbmHeader {
  char kind = 0;  // '1' to '6': PBM, PGM and PPM as text, then in binary
  ImageSize size;
  int max = 1;           // of a sample
  size_t pixels_at = 0;  // in the file

  bool plain() const { return kind <= '3'; }
  bool bits() const { return kind == '1' || kind == '4'; }
  int samples() const { return kind == '3' || kind == '6' ? 3 : 1; }
  const char* name() const { return bits() ? "PBM" : samples() == 3 ? "PPM" : "PGM"; }
  /// Returns the number of bytes of a binary file's pixels.
  int64_t bytes() const {
    if (bits()) return int64_t{size.height} * ((size.width + 7) / 8);
    return size.pixels() * samples() * (max > 255 ? 2 : 1);
  }
};

absl::Status DamagedNetpbm(const NetpbmHeader& header) {
  return absl::DataLossError(absl::StrCat("truncated or damaged ", header.name()));
}

/// Reads numbers in decimal, between white space and comments.
class NumberReader {
 public:
  NumberReader(std::string_view file, size_t at) : file_(file), at_(at) {}

  /// Position after the last number.
  size_t at() const { return at_; }
  /// Returns -1 if there is no number, or one of more than ten digits.
  int64_t Next() {
    SkipToWord();
    const size_t from = at_;
    int64_t number = 0;
    while (at_ < file_.size() && absl::ascii_isdigit(static_cast<unsigned char>(file_[at_])))
      number = std::min(kMaxNumber + 1, 10 * number + (file_[at_++] - '0'));
    return at_ == from || number > kMaxNumber ? -1 : number;
  }
  /// Returns the next 0 or 1, which need no space between them; -1 if there is none.
  int64_t NextBit() {
    SkipToWord();
    if (at_ >= file_.size() || (file_[at_] != '0' && file_[at_] != '1')) return -1;
    return file_[at_++] - '0';
  }

 private:
  void SkipToWord() {
    while (at_ < file_.size()) {
      if (file_[at_] == '#') {
        at_ = std::min(file_.find_first_of("\r\n", at_), file_.size());
      } else if (absl::ascii_isspace(static_cast<unsigned char>(file_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  const std::string_view file_;
  size_t at_;
};

absl::StatusOr<NetpbmHeader> ReadNetpbmHeader(std::string_view file, const DecodeLimits& limits) {
  if (!IsNetpbm(file)) return absl::InvalidArgumentError("not a PBM, PGM or PPM image");
  NetpbmHeader header{.kind = file[1], .size = {}};
  NumberReader numbers(file, 2);
  const int64_t width = numbers.Next(), height = numbers.Next();
  const int64_t max = header.bits() ? 1 : numbers.Next();
  if (width < 0 || height < 0 || max < 1 || max > kMaxSample) return DamagedNetpbm(header);
  MT_RETURN_IF_ERROR(CheckLimits(height, width, limits));
  header.size = {static_cast<int>(height), static_cast<int>(width)};
  header.max = static_cast<int>(max);
  header.pixels_at = std::min(numbers.at() + 1, file.size());  // after one character of white space
  return header;
}

/// Returns the level of every sample from 0 to `max`.
std::vector<uint8_t> LevelsOf(const NetpbmHeader& header) {
  const int max = header.max;
  std::vector<uint8_t> levels;
  for (int value = 0; value <= max; ++value) {
    const double part = static_cast<double>(value) / max;
    const bool deep_grey = max > 255 && header.samples() == 1;
    levels.push_back(static_cast<uint8_t>(deep_grey ? static_cast<int>(std::nearbyint(part * 65535)) >> 8
                                                    : static_cast<int>(std::nearbyint(part * 255))));
  }
  if (header.bits()) std::ranges::reverse(levels);  // 1 is black
  return levels;
}

/// Reads the samples of a file, row by row.
class SampleReader {
 public:
  /// REQUIRES: the file has header.bytes(), if it is binary.
  SampleReader(std::string_view file, const NetpbmHeader& header)
      : header_(header), text_(file, header.pixels_at), bytes_(file.substr(header.pixels_at)) {}

  /// Returns -1 if a text ends, or has something else.
  int64_t Next() {
    if (header_.plain()) return header_.bits() ? text_.NextBit() : text_.Next();
    if (header_.bits()) return Bit();
    const int64_t high = Byte(at_++);
    return header_.max > 255 ? high << 8 | Byte(at_++) : high;
  }

 private:
  int64_t Byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }
  /// Returns the next bit of rows that each begin with a byte.
  int64_t Bit() {
    const int64_t bit = Byte(at_) >> (7 - x_ % 8) & 1;
    ++x_;
    if (x_ % 8 == 0 || x_ == header_.size.width) ++at_;
    if (x_ == header_.size.width) x_ = 0;
    return bit;
  }

  const NetpbmHeader& header_;
  NumberReader text_;
  const std::string_view bytes_;
  size_t at_ = 0;  // in bytes_
  int x_ = 0;
};

}  // namespace

bool IsNetpbm(std::string_view file) {
  return file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
         (file[2] == '#' || absl::ascii_isspace(static_cast<unsigned char>(file[2])));
}

absl::StatusOr<ImageSize> NetpbmSize(std::string_view file) {
  MT_ASSIGN_OR_RETURN(const NetpbmHeader header, ReadNetpbmHeader(file, {.max_pixels = INT64_MAX}));
  return header.size;
}

absl::StatusOr<RgbImage> DecodeNetpbm(std::string_view file, const DecodeLimits& limits) {
  MT_ASSIGN_OR_RETURN(const NetpbmHeader header, ReadNetpbmHeader(file, limits));
  // A sample of a text has one character at least, so a small file cannot ask for much memory.
  const int64_t needed = header.plain() ? header.size.pixels() * header.samples() : header.bytes();
  if (static_cast<int64_t>(file.size() - header.pixels_at) < needed) return DamagedNetpbm(header);
  const std::vector<uint8_t> levels = LevelsOf(header);
  SampleReader samples(file, header);
  RgbImage image = MakeImage(header.size);
  for (size_t i = 0; i < image.pixels.size();) {
    const int64_t sample = samples.Next();
    if (sample < 0 || (sample > header.max && header.plain())) return DamagedNetpbm(header);
    const uint8_t level = levels[static_cast<size_t>(std::min<int64_t>(sample, header.max))];
    for (int copies = header.samples() == 3 ? 1 : 3; copies > 0; --copies) image.pixels[i++] = level;
  }
  return image;
}

}  // namespace mtrun::datasets
