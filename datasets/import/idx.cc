#include "datasets/import/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/images/byte_number.h"
#include "datasets/import/pixel_source.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, three dimensions
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr int64_t kMaxIdxBytes = int64_t{1} << 36;
const char* const kFashion[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

/// A file, decompressed if it is gzip; zlib passes a plain one through.
class GzFile {
 public:
  static absl::StatusOr<GzFile> Open(const std::string& path) {
    errno = 0;
    GzFile file(path, gzopen(path.c_str(), "rbe"));
    if (file.handle_ == nullptr) return ErrnoStatus(errno == 0 ? ENOMEM : errno, "open " + path);
    gzbuffer(file.handle_.get(), 1 << 18);
    return file;
  }

  /// Reads up to `limit` bytes; fewer at the end of the file.
  absl::StatusOr<std::string> Read(int64_t limit) {
    std::string bytes;
    while (static_cast<int64_t>(bytes.size()) < limit) {
      const size_t before = bytes.size();
      bytes.resize(before +
                   static_cast<size_t>(std::min<int64_t>(limit - static_cast<int64_t>(before), 1 << 22)));
      const int n =
          gzread(handle_.get(), bytes.data() + before, static_cast<unsigned>(bytes.size() - before));
      bytes.resize(before + std::max(n, 0));
      int code = Z_OK;
      const char* why = gzerror(handle_.get(), &code);
      if (n < 0 || code == Z_BUF_ERROR) {
        return absl::DataLossError(absl::StrCat(path_, " is truncated or damaged: ", why));
      }
      if (n == 0) break;
    }
    return bytes;
  }

 private:
  GzFile(std::string path, gzFile handle) : path_(std::move(path)), handle_(handle, gzclose) {}
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> handle_;
};

struct IdxArray {
  std::string path;
  std::vector<int64_t> sizes;
  std::string bytes;
};

int64_t BigEndian(const std::string& bytes, size_t at) {
  return static_cast<int64_t>(NumberAt(bytes, at, 4, /*little_endian=*/false));
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, uint32_t magic, int dimensions) {
  MT_ASSIGN_OR_RETURN(GzFile file, GzFile::Open(path));
  MT_ASSIGN_OR_RETURN(const std::string header, file.Read(4 + 4 * dimensions));
  if (header.size() < 4 || BigEndian(header, 0) != magic) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has the wrong magic number (0x%08x, expected 0x%08x): not this kind of IDX file",
                        path, header.size() < 4 ? 0 : BigEndian(header, 0), magic));
  }
  if (static_cast<int>(header.size()) < 4 + 4 * dimensions)
    return absl::DataLossError(path + " is truncated in its header");
  IdxArray array{.path = path, .sizes = {}, .bytes = ""};
  int64_t expected = 1;
  for (int i = 0; i < dimensions; ++i) {
    array.sizes.push_back(BigEndian(header, 4 + 4 * i));
    if (__builtin_mul_overflow(expected, array.sizes.back(), &expected) || expected > kMaxIdxBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has impossible sizes in its header"));
    }
  }
  MT_ASSIGN_OR_RETURN(array.bytes, file.Read(expected + 1));
  if (static_cast<int64_t>(array.bytes.size()) == expected) return array;
  const bool is_short = static_cast<int64_t>(array.bytes.size()) < expected;
  return absl::DataLossError(
      absl::StrCat(path, is_short ? " is truncated: " : " is too long: ", "its header says ", expected,
                   " bytes of data, but it has ", is_short ? "" : "more than ",
                   is_short ? static_cast<int64_t>(array.bytes.size()) : expected));
}

/// Returns the path of "train-images-idx3-ubyte" under one of its common names, plain before .gz.
std::optional<std::string> FindFile(const std::string& folder, const std::string& set,
                                    const std::string& kind) {
  std::error_code error;
  for (const char* middle : {"-", "."}) {
    for (const char* end : {"", ".gz"}) {
      const std::string path =
          absl::StrCat(folder, "/", set, "-", kind.substr(0, 6), middle, kind.substr(7), end);
      if (fs::is_regular_file(path, error)) return path;
    }
  }
  return std::nullopt;
}

constexpr char kImagesKind[] = "images-idx3-ubyte";
constexpr char kLabelsKind[] = "labels-idx1-ubyte";

struct Split {
  IdxArray pixels, labels;

  int64_t images() const { return labels.sizes[0]; }
  int64_t label(int64_t i) const { return static_cast<uint8_t>(labels.bytes[i]); }
  /// Repeats grey over the channels.
  void Pixels(int64_t i, uint8_t* out) const {
    const int64_t size = pixels.sizes[1] * pixels.sizes[2];
    for (int64_t p = i * size; p < (i + 1) * size; ++p)
      out = std::fill_n(out, 3, static_cast<uint8_t>(pixels.bytes[p]));
  }
};

absl::StatusOr<Split> ReadSplit(const std::string& folder, const std::string& set) {
  const auto images = FindFile(folder, set, kImagesKind), labels = FindFile(folder, set, kLabelsKind);
  if (!images || !labels) {
    return absl::NotFoundError(
        absl::StrCat(folder, " has no ", set, "-", images ? kLabelsKind : kImagesKind, " (plain or .gz)"));
  }
  Split split;
  MT_ASSIGN_OR_RETURN(split.pixels, ReadIdx(*images, kImagesMagic, 3));
  MT_ASSIGN_OR_RETURN(split.labels, ReadIdx(*labels, kLabelsMagic, 1));
  if (split.pixels.sizes[0] != split.labels.sizes[0]) {
    return absl::InvalidArgumentError(absl::StrCat(*images, " has ", split.pixels.sizes[0], " images but ",
                                                   *labels, " has ", split.labels.sizes[0],
                                                   " labels: the files do not match"));
  }
  if (split.pixels.bytes.empty()) return absl::InvalidArgumentError(*images + " has no images");
  return split;
}

absl::StatusOr<std::vector<std::string>> IdxClassNames(const std::string& folder,
                                                       const std::vector<const Split*>& splits) {
  int highest = 9;
  std::string where;
  for (const Split* split : splits) {
    for (const char label : split->labels.bytes) {
      if (static_cast<uint8_t>(label) > highest) where = split->labels.path;
      highest = std::max<int>(highest, static_cast<uint8_t>(label));
    }
  }
  std::error_code error;
  const std::string name = fs::weakly_canonical(folder, error).filename().string();
  if (absl::StrContains(absl::AsciiStrToLower(name), "fashion")) {
    if (highest > 9)
      return absl::DataLossError(
          absl::StrCat(where, " has label ", highest, ", but Fashion-MNIST has only labels 0 to 9"));
    return std::vector<std::string>(std::begin(kFashion), std::end(kFashion));
  }
  std::vector<std::string> classes;
  for (int i = 0; i <= highest; ++i) classes.push_back(absl::StrCat(i));
  return classes;
}

}  // namespace

bool LooksLikeIdx(const std::string& folder) {
  for (const char* set : {"train", "t10k"}) {
    if (FindFile(folder, set, kImagesKind) || FindFile(folder, set, kLabelsKind)) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenIdx(const std::string& folder) {
  MT_ASSIGN_OR_RETURN(Split train, ReadSplit(folder, "train"));
  MT_ASSIGN_OR_RETURN(Split test, ReadSplit(folder, "t10k"));
  const std::vector<int64_t>& sizes = train.pixels.sizes;
  if (sizes[1] != test.pixels.sizes[1] || sizes[2] != test.pixels.sizes[2]) {
    return absl::InvalidArgumentError(
        absl::StrCat(train.pixels.path, " and ", test.pixels.path, " contain images of different sizes"));
  }
  if (sizes[1] > kMaxImageSide || sizes[2] > kMaxImageSide)
    return absl::InvalidArgumentError(train.pixels.path + ": the images are too large");
  MT_ASSIGN_OR_RETURN(std::vector<std::string> classes, IdxClassNames(folder, {&test, &train}));
  const ImageSize size{static_cast<int>(sizes[1]), static_cast<int>(sizes[2])};
  std::map<std::string, std::vector<Split>> splits;
  splits["train"].push_back(std::move(train));
  splits["test"].push_back(std::move(test));
  return std::make_unique<PixelSource<Split>>(size, std::move(classes), std::move(splits));
}

}  // namespace mtrun::datasets
