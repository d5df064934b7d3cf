#include "datasets/import/cifar.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/folder_names.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/files/archive_reader.h"
#include "datasets/import/pixel_source.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr int64_t kPlane = int64_t{kSide} * kSide;
constexpr int64_t kPixels = 3 * kPlane;
constexpr int64_t kMaxCifarBytes = int64_t{1} << 30;  // all files together; published: 185 MB
constexpr int kBatches = 5;                           // of CIFAR-10

/// One of the two published sets.
struct Kind {
  int classes;
  int label_bytes;  // the label is the last of these bytes
  const char* names_file;
  int64_t train_images, test_images;  // as published
};
constexpr Kind kCifar10{10, 1, "batches.meta.txt", 10000, 10000};  // 10,000 in each batch
constexpr Kind kCifar100{100, 2, "fine_label_names.txt", 50000, 10000};

/// File name (without folders) to contents.
using Files = std::map<std::string, std::string>;

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Returns N for "data_batch_N.bin", -1 for other names.
int BatchNumber(const std::string& name) {
  absl::string_view rest = name;
  int number = -1;
  if (!absl::StartsWith(rest, "data_batch_") || !absl::EndsWith(rest, ".bin")) return -1;
  rest.remove_prefix(11);
  rest.remove_suffix(4);
  return absl::SimpleAtoi(rest, &number) ? number : -1;
}

bool IsCifarFile(const std::string& name) {
  return BatchNumber(name) >= 0 || name == "test_batch.bin" || name == "train.bin" || name == "test.bin" ||
         name == kCifar10.names_file || name == kCifar100.names_file;
}

absl::StatusOr<Files> ReadFromArchive(const std::string& path) {
  MT_ASSIGN_OR_RETURN(ArchiveReader reader, ArchiveReader::Open(path));
  Files files;
  int64_t left = kMaxCifarBytes;
  for (;;) {
    MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return files;
    const std::string name = BaseName(reader.name());
    if (!reader.is_file() || !IsCifarFile(name)) continue;
    MT_ASSIGN_OR_RETURN(files[name], reader.Read(left));
    left -= static_cast<int64_t>(files[name].size());
  }
}

absl::StatusOr<Files> ReadFromFolder(const std::string& folder) {
  Files files;
  int64_t left = kMaxCifarBytes;
  for (const std::string& name : NamesIn(folder)) {
    if (!IsCifarFile(name)) continue;
    MT_ASSIGN_OR_RETURN(files[name],
                        ReadFileStart(absl::StrCat(folder, "/", name), static_cast<size_t>(left) + 1));
    left -= static_cast<int64_t>(files[name].size());
    if (left < 0)
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": the CIFAR files are larger than ", kMaxCifarBytes, " bytes"));
  }
  return files;
}

/// A checked file of records: label byte(s), then three planes of 32x32.
struct RecordFile {
  std::string name;
  std::string bytes;
  int64_t record = 0;
  int label_bytes = 1;

  int64_t images() const { return static_cast<int64_t>(bytes.size()) / record; }
  int64_t label(int64_t i) const { return static_cast<uint8_t>(bytes[i * record + label_bytes - 1]); }
  /// Converts planes to interleaved pixels.
  void Pixels(int64_t i, uint8_t* out) const {
    const char* planes = bytes.data() + i * record + label_bytes;
    for (int64_t p = 0; p < kPlane; ++p) {
      for (int c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>(planes[c * kPlane + p]);
    }
  }
};

absl::StatusOr<RecordFile> CheckRecords(const std::string& source, const std::string& name, std::string bytes,
                                        const Kind& kind, int64_t published) {
  RecordFile file{.name = name,
                  .bytes = std::move(bytes),
                  .record = kind.label_bytes + kPixels,
                  .label_bytes = kind.label_bytes};
  const int64_t rest = static_cast<int64_t>(file.bytes.size()) % file.record;
  if (rest != 0 || file.bytes.empty()) {
    return absl::DataLossError(absl::StrCat(source, ": ", name, " is truncated: ", file.images(),
                                            " whole images of ", file.record, " bytes and ", rest,
                                            " more bytes"));
  }
  for (int64_t i = 0; i < file.images(); ++i) {
    if (file.label(i) < kind.classes) continue;
    return absl::DataLossError(absl::StrCat(source, ": ", name, ": image ", i, " has label ", file.label(i),
                                            "; it must be from 0 to ", kind.classes - 1,
                                            "; the file is damaged or belongs to another data set"));
  }
  if (file.images() != published) {
    log::Warning(source, ": ", name, " holds ", file.images(), " images, but the published file holds ",
                 published);
  }
  return file;
}

std::vector<std::string> ClassNames(const Files& files, const Kind& kind) {
  std::vector<std::string> names;
  const auto found = files.find(kind.names_file);
  if (found != files.end()) {
    for (absl::string_view line : absl::StrSplit(found->second, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (!line.empty()) names.emplace_back(line);
    }
  }
  if (static_cast<int>(names.size()) == kind.classes) return names;
  if (kind.classes == 10) {
    return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  }
  log::Warning("no ", kind.names_file, " with ", kind.classes,
               " names: the classes are named by their numbers");
  names.clear();
  for (int i = 0; i < kind.classes; ++i) names.push_back(absl::StrCat(i));
  return names;
}

/// Warns if batches are missing, as after a broken download; a smaller set may be intended.
void WarnOfMissing(const std::string& source, const std::map<int, std::string>& batches) {
  std::vector<std::string> missing;
  for (int number = 1; number <= kBatches; ++number) {
    if (batches.count(number) == 0) missing.push_back(absl::StrCat("no data_batch_", number, ".bin"));
  }
  if (!missing.empty())
    log::Warning(source, " has ", absl::StrJoin(missing, " and "),
                 ": the set is smaller than the published one");
}

}  // namespace

bool LooksLikeCifar(const std::vector<std::string>& names) {
  bool train = false, test = false;
  for (const std::string& path : names) {
    const std::string name = BaseName(path);
    if (BatchNumber(name) >= 0 || name == "test_batch.bin") return true;
    train |= name == "train.bin";
    test |= name == "test.bin";
  }
  return train && test;
}

bool LooksLikePythonCifar(const std::vector<std::string>& names) {
  for (const std::string& path : names) {
    const std::string name = BaseName(path);
    if (name == "data_batch_1" || path == "cifar-100-python/train") return true;
  }
  return false;
}

std::string FindCifarFolder(const std::string& folder) {
  if (LooksLikeCifar(NamesIn(folder))) return folder;
  std::string found;
  for (const std::string& name : NamesIn(folder)) {
    const std::string inner = absl::StrCat(folder, "/", name);
    if (!LooksLikeCifar(NamesIn(inner))) continue;
    if (!found.empty()) return "";
    found = inner;
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenCifar(const std::string& source) {
  std::error_code error;
  const bool is_folder = fs::is_directory(source, error);
  const std::string folder = is_folder ? FindCifarFolder(source) : "";
  MT_ASSIGN_OR_RETURN(Files files, is_folder ? ReadFromFolder(folder) : ReadFromArchive(source));

  std::map<int, std::string> batches;  // by number
  for (const auto& [name, bytes] : files) {
    if (BatchNumber(name) >= 0) batches[BatchNumber(name)] = name;
  }
  const Kind& kind = batches.empty() ? kCifar100 : kCifar10;
  if (!batches.empty()) WarnOfMissing(source, batches);
  if (batches.empty()) batches[0] = "train.bin";
  const std::string test_name = kind.classes == 10 ? "test_batch.bin" : "test.bin";
  for (const std::string& name : {batches.begin()->second, test_name}) {
    if (files.count(name) == 0)
      return absl::NotFoundError(
          absl::StrCat(source, " does not contain ", name, ", a file of CIFAR's binary version"));
  }
  std::map<std::string, std::vector<RecordFile>> splits;  // in the order of their numbers
  for (const auto& [number, name] : batches) {
    MT_ASSIGN_OR_RETURN(RecordFile file,
                        CheckRecords(source, name, std::move(files[name]), kind, kind.train_images));
    splits["train"].push_back(std::move(file));
  }
  MT_ASSIGN_OR_RETURN(RecordFile test,
                      CheckRecords(source, test_name, std::move(files[test_name]), kind, kind.test_images));
  splits["test"].push_back(std::move(test));
  return std::make_unique<PixelSource<RecordFile>>(ImageSize{kSide, kSide}, ClassNames(files, kind),
                                                   std::move(splits));
}

}  // namespace mtrun::datasets
