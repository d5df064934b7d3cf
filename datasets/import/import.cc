#include "datasets/import/import.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/folder_names.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/archive_reader.h"
#include "datasets/files/progress.h"
#include "datasets/files/shell_word.h"
#include "datasets/files/source_path.h"
#include "datasets/files/tree_listing.h"
#include "datasets/images/exif.h"
#include "datasets/images/image_file.h"
#include "datasets/import/brace_list.h"
#include "datasets/import/cifar.h"
#include "datasets/import/encoded_import.h"
#include "datasets/import/image_folder.h"
#include "datasets/import/importers.h"
#include "datasets/packed/packed_writer.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedBadFiles = 20;
constexpr int64_t kSmallPixels = 64 * 64;  // pixels take about as much space as the files
constexpr char kPythonCifar[] =
    "is the Python version of CIFAR, which only Python can read; use the binary version "
    "(cifar-10-binary.tar.gz)";

constexpr char kHelp[] = "mtdata import --help lists what can be imported";

/// Names the archives in a folder of which nothing else is known.
std::string ArchivesIn(const std::string& source) {
  std::vector<std::string> archives = NamesIn(source);
  std::erase_if(archives, [&source](const std::string& name) {
    std::error_code ignored;
    return !HasArchiveName(name) || IsHiddenName(name) || !fs::is_regular_file(source + "/" + name, ignored);
  });
  if (archives.empty()) return "";
  return AsPlainText(absl::StrCat(source, " holds no images, but ", archives.size(), " archive",
                                  archives.size() == 1 ? "" : "s", "; import one with: mtdata import ",
                                  ShellWord((fs::path(source) / archives[0]).string()), " DEST"));
}

/// Detects the format by the names in the archive, up to the first decisive one.
absl::StatusOr<std::string> DetectArchive(const std::string& source) {
  constexpr size_t kMaxNames = 1000;
  MT_ASSIGN_OR_RETURN(ArchiveReader reader, ArchiveReader::Open(source));
  std::vector<std::string> names;
  while (names.size() <= kMaxNames) {
    MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    names.push_back(reader.name());
    for (const Importer& importer : Importers()) {
      if (importer.is_archive != nullptr && importer.is_archive(names)) return importer.name;
    }
    if (LooksLikePythonCifar(names))
      return absl::InvalidArgumentError(absl::StrCat(source, " ", kPythonCifar));
  }
  return Importers().back().name;
}

absl::StatusOr<std::string> DetectFolder(const std::string& source, bool unlabelled) {
  for (const Importer& importer : Importers()) {
    if (importer.is_folder(source)) return importer.name;
  }
  if (unlabelled || HoldsImages(source)) return Importers().back().name;  // whose errors say what is missing
  std::error_code error;
  if (fs::exists(fs::path(source) / "data_batch_1", error)) {
    return absl::InvalidArgumentError(absl::StrCat(source, " ", kPythonCifar));
  }
  const std::string archives = ArchivesIn(source);
  if (!archives.empty()) return absl::InvalidArgumentError(archives);
  return absl::InvalidArgumentError(absl::StrCat(source, " holds no images and no known data set; ", kHelp));
}

/// Resolves kAuto by the source's contents; kInvalidArgument: the store does not fit the source or rules.
absl::StatusOr<Store> ChooseStore(const ImportOptions& options, const ImageFiles* files) {
  const bool keeps_shape = options.rules.short_side > 0 || options.rules.max_side > 0;
  if (options.store == Store::kPixels || files == nullptr) {
    if (options.store == Store::kEncoded)
      return absl::InvalidArgumentError("--store encoded: the source holds pixels, not image files");
    if (keeps_shape)
      return absl::InvalidArgumentError(
          "--short_side and --max_side give images of different sizes, which --store pixels does not "
          "support");
    return Store::kPixels;
  }
  if (options.store == Store::kEncoded || keeps_shape) return Store::kEncoded;
  if (options.rules.fixed_size()) return Store::kPixels;
  std::optional<ImageSize> common;
  for (size_t i = 0; i < files->listing.images.size(); ++i) {
    const auto bytes = files->Read(i);
    auto size = bytes.ok() ? FindAnyImageSize(*bytes) : bytes.status();
    if (!size.ok()) continue;  // the import reports it
    if (options.rules.exif) size = UprightSize(*size, ExifOrientation(*bytes));
    if (size->pixels() > kSmallPixels || *size != common.value_or(*size)) return Store::kEncoded;
    common = *size;
  }
  return Store::kPixels;
}

absl::StatusOr<ImportReport> ImportPixels(ImageSource& source, const ImportOptions& options,
                                          const std::atomic<bool>& cancelled) {
  if (absl::Status found = source.FindShape(); !found.ok()) return Annotate(found, options.source);
  PackedShape shape = source.shape();
  if (shape.splits.count("train") == 0) return absl::InvalidArgumentError("no images to train on");
  const ImageSize target = options.rules.fixed_size().value_or(ImageSize{shape.height, shape.width});
  shape.height = target.height;
  shape.width = target.width;
  if (source.files() != nullptr) shape.orientation = options.rules.orientation();
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<PackedWriter> writer,
                      PackedWriter::Create(options.destination, shape,
                                           {.shard_bytes = options.shard_bytes, .replace = options.replace}));
  std::atomic<int64_t> done = 0;
  ImageSink sink(*writer, options.rules, target, done, cancelled);
  ImportReport report;
  {
    const Progress progress(shape.images(), done);
    MT_ASSIGN_OR_RETURN(report.left_out, source.CopyTo(sink, options.threads));
    report.oriented = source.oriented();
  }
  if (cancelled) return absl::CancelledError("stopped");
  if (!report.left_out.empty()) {
    if (!options.tree.skip_bad) return BadFilesError(options.source, report.left_out);
    MT_RETURN_IF_ERROR(writer->CloseGaps());
  }
  MT_ASSIGN_OR_RETURN(report.index, writer->Finish());
  return report;
}

/// Refuses a source that is the destination or inside it, because replacing would remove the source.
absl::Status CheckApart(const ImportOptions& options) {
  std::error_code error;
  if (!fs::exists(options.destination, error)) return absl::OkStatus();
  const fs::path to = fs::weakly_canonical(options.destination, error);
  for (const std::string* source : {&options.source, &options.val_source, &options.test_source}) {
    if (source->empty()) continue;
    std::vector<std::string> paths{*source};
    if (!fs::exists(*source, error)) {
      if (auto expanded = ExpandBraces(*source); expanded.ok()) paths = *std::move(expanded);
    }
    for (const std::string& path : paths) {
      const fs::path from = fs::weakly_canonical(path, error);
      if (std::mismatch(to.begin(), to.end(), from.begin(), from.end()).first != to.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat(*source, " is the destination ", options.destination,
                                                     " or is inside it; give another destination"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BadFilesError(const std::string& source, const std::vector<BadFile>& bad) {
  std::string text = absl::StrCat(source, ": ", bad.size(), " bad image file", bad.size() == 1 ? "" : "s",
                                  " (nothing was imported; --skip_bad leaves them out):");
  for (size_t i = 0; i < bad.size() && i < kListedBadFiles; ++i)
    absl::StrAppend(&text, "\n  ", AsPlainText(bad[i].path), ": ", AsPlainText(bad[i].why));
  if (bad.size() > kListedBadFiles) absl::StrAppend(&text, "\n  and ", bad.size() - kListedBadFiles, " more");
  return absl::DataLossError(text);
}

absl::StatusOr<std::string> DetectFormat(const std::string& source, bool unlabelled) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status) && !FindSourcePath(source).inside.empty()) return Importers().back().name;
  if (!fs::exists(status) && source.find('{') != std::string::npos) return "webdataset";
  if (!fs::exists(status)) return absl::NotFoundError(absl::StrCat("there is no ", source));
  if (fs::is_directory(status)) return DetectFolder(source, unlabelled);
  if (HasArchiveName(source)) return DetectArchive(source);
  return absl::InvalidArgumentError(
      absl::StrCat(source, " is neither a folder nor an archive (.tar, .tar.gz, .tgz, .zip, ...); ", kHelp));
}

/// Refuses flags that only sources with image files have.
absl::Status CheckSourceFlags(const ImportOptions& options, const std::string& format, bool has_files) {
  for (const auto& [flag, share] :
       {std::pair("test_share", options.tree.shares.test), {"val_share", options.tree.shares.val}}) {
    if (!has_files && share > 0)
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": not supported for ", format, " sources"));
  }
  for (const auto& [flag, value] : {std::pair("val_source", &options.val_source),
                                    {"test_source", &options.test_source},
                                    {"val_labels", &options.val_labels},
                                    {"class_list", &options.class_list}}) {
    if (!has_files && !value->empty())
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": not supported for ", format, " sources"));
  }
  if (format != "webdataset" && !(options.image_fields.empty() && options.class_fields.empty()))
    return absl::InvalidArgumentError(absl::StrCat(
        "--image_field and --class_field are for WebDataset archives, not for ", format, " sources"));
  if (format == "webdataset" && !options.val_labels.empty())
    return absl::InvalidArgumentError("--val_labels: WebDataset archives already contain the classes");
  if (format == "folder" && !options.class_list.empty() && options.val_labels.empty())
    return absl::InvalidArgumentError("--class_list needs --val_labels or WebDataset archives");
  return absl::OkStatus();
}

absl::StatusOr<ImportReport> Import(const ImportOptions& options, const std::atomic<bool>& cancelled) {
  const TimePoint start = MonotonicNow();
  MT_RETURN_IF_ERROR(CheckRules(options.rules));
  MT_RETURN_IF_ERROR(CheckApart(options));
  std::string format = options.format;
  if (format == "auto") {
    MT_ASSIGN_OR_RETURN(format, DetectFormat(options.source, options.tree.unlabelled));
  }
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, ImporterNamed(format).open(options));
  MT_RETURN_IF_ERROR(CheckSourceFlags(options, format, source->files() != nullptr));
  MT_ASSIGN_OR_RETURN(const Store store, ChooseStore(options, source->files()));
  MT_ASSIGN_OR_RETURN(ImportReport report, store == Store::kEncoded
                                               ? ImportEncoded(*source->files(), options, cancelled)
                                               : ImportPixels(*source, options, cancelled));
  report.format = format;
  if (source->files() != nullptr) report.counts = source->files()->listing.left_out;
  report.seconds = ToSeconds(MonotonicNow() - start);
  return report;
}

}  // namespace mtrun::datasets
