#include "datasets/import.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datasets/cifar.h"
#include "datasets/encoded_import.h"
#include "datasets/further_formats.h"
#include "datasets/importers.h"
#include "datasets/packed_writer.h"
#include "datasets/progress.h"
#include "datasets/tar_reader.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedBadFiles = 20;
constexpr int64_t kSmallPixels = 64 * 64;  // whose pixels take about what their files do
constexpr char kPythonCifar[] =
    "is the Python version of CIFAR, which only Python can read; take the binary version "
    "(cifar-10-binary.tar.gz)";

/// "known are: idx (the MNIST family: ...), ..."
std::string KnownFormats() {
  const auto one = [](std::string* out, const Importer& importer) {
    absl::StrAppend(out, importer.name, " (", importer.help, ")");
  };
  return absl::StrCat("known are: ", absl::StrJoin(Importers(), ", ", one));
}

/// By the names in the archive, up to the first that tells.
absl::StatusOr<std::string> DetectArchive(const std::string& source) {
  constexpr size_t kMostNames = 1000;
  MT_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(source));
  std::vector<std::string> names;
  while (names.size() <= kMostNames) {
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

absl::StatusOr<std::string> DetectFolder(const std::string& source) {
  for (const Importer& importer : Importers()) {
    if (importer.is_folder(source)) return importer.name;
  }
  std::error_code error;
  if (fs::exists(fs::path(source) / "data_batch_1", error)) {
    return absl::InvalidArgumentError(absl::StrCat(source, " ", kPythonCifar));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(source, " is no data set in a known format; ", KnownFormats()));
}

/// One attempt: either an index, or the files that stand in the way.
struct Attempt {
  std::optional<Index> index;
  std::vector<BadFile> bad;
};

absl::StatusOr<Attempt> TryOnce(ImageSource& source, const ImportOptions& options,
                                const std::atomic<bool>& cancelled) {
  PackedShape shape = source.shape();
  if (shape.splits.count("train") == 0) return absl::InvalidArgumentError("no images to train on");
  const ImageSize target = options.rules.fixed_size().value_or(ImageSize{shape.height, shape.width});
  shape.height = target.height;
  shape.width = target.width;
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<PackedWriter> writer,
                      PackedWriter::Create(options.destination, shape,
                                           {.shard_bytes = options.shard_bytes, .replace = options.replace}));
  std::atomic<int64_t> done = 0;
  ImageSink sink(*writer, options.rules, target, done, cancelled);
  Attempt attempt;
  {
    const Progress progress(shape.images(), done);
    MT_ASSIGN_OR_RETURN(attempt.bad, source.CopyTo(sink, options.threads));
  }
  if (cancelled) return absl::CancelledError("stopped");
  if (attempt.bad.empty()) {
    MT_ASSIGN_OR_RETURN(attempt.index, writer->Finish());
  }
  return attempt;
}

/// kAuto decided by the source's contents; kInvalidArgument for a store that does not go with source or
/// rules.
absl::StatusOr<Store> ChooseStore(const ImportOptions& options, const ImageFiles* files) {
  const bool keeps_shape = options.rules.short_side > 0 || options.rules.max_side > 0;
  if (options.store == Store::kPixels || files == nullptr) {
    if (options.store == Store::kEncoded)
      return absl::InvalidArgumentError("--store encoded: the source holds pixels, no image files");
    if (keeps_shape)
      return absl::InvalidArgumentError(
          "--short_side and --max_side leave images of many sizes, which --store pixels does not hold");
    return Store::kPixels;
  }
  if (options.store == Store::kEncoded || keeps_shape) return Store::kEncoded;
  if (options.rules.fixed_size()) return Store::kPixels;
  std::optional<ImageSize> common;
  for (size_t i = 0; i < files->listing.images.size(); ++i) {
    const auto bytes = files->Read(i);
    const auto size = bytes.ok() ? FindAnyImageSize(*bytes) : bytes.status();
    if (!size.ok()) continue;  // the import names it
    if (size->pixels() > kSmallPixels || *size != common.value_or(*size)) return Store::kEncoded;
    common = *size;
  }
  return Store::kPixels;
}

absl::StatusOr<ImportReport> ImportPixels(ImageSource& source, const ImportOptions& options,
                                          const std::atomic<bool>& cancelled) {
  ImportReport report;
  if (absl::Status found = source.FindShape(); !found.ok()) return Annotate(found, options.source);
  for (;;) {
    MT_ASSIGN_OR_RETURN(Attempt attempt, TryOnce(source, options, cancelled));
    if (attempt.index) {
      report.index = std::move(*attempt.index);
      return report;
    }
    if (!options.skip_bad) return BadFilesError(options.source, attempt.bad);
    // Positions after a bad file move up, so the copy is made again without them.
    log::Info("leaving out ", attempt.bad.size(), " bad files, importing the others");
    report.left_out.insert(report.left_out.end(), attempt.bad.begin(), attempt.bad.end());
  }
}

/// The folder that will hold the destination.
std::string ParentOf(const std::string& destination) {
  std::error_code error;
  fs::path path = fs::absolute(destination, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "out/"
  return path.parent_path().string();
}

}  // namespace

absl::Status BadFilesError(const std::string& source, const std::vector<BadFile>& bad) {
  std::string text = absl::StrCat(source, ": ", bad.size(), " bad image file", bad.size() == 1 ? "" : "s",
                                  " (nothing was imported; --skip_bad leaves them out):");
  for (size_t i = 0; i < bad.size() && i < kListedBadFiles; ++i)
    absl::StrAppend(&text, "\n  ", bad[i].path, ": ", bad[i].why);
  if (bad.size() > kListedBadFiles) absl::StrAppend(&text, "\n  and ", bad.size() - kListedBadFiles, " more");
  return absl::DataLossError(text);
}

absl::StatusOr<std::string> DetectFormat(const std::string& source) {
  std::error_code error;
  const fs::file_status status = fs::status(source, error);
  if (!fs::exists(status)) return absl::NotFoundError(absl::StrCat("there is no ", source));
  if (fs::is_directory(status)) return DetectFolder(source);
  if (HasTarName(source)) return DetectArchive(source);
  return absl::InvalidArgumentError(absl::StrCat(
      source, " is neither a folder nor a tar archive (.tar, .tar.gz, .tgz, ...); ", KnownFormats()));
}

absl::StatusOr<ImportReport> Import(const ImportOptions& options, const std::atomic<bool>& cancelled) {
  const TimePoint start = MonotonicNow();
  MT_RETURN_IF_ERROR(CheckRules(options.rules));
  std::string format = options.format;
  if (format == "auto") {
    MT_ASSIGN_OR_RETURN(format, DetectFormat(options.source));
  }
  MT_ASSIGN_OR_RETURN(
      const std::unique_ptr<ImageSource> source,
      ImporterNamed(format).open(
          options.source,
          {.rules = options.rules, .tree = options.tree, .spool_folder = ParentOf(options.destination)}));
  MT_ASSIGN_OR_RETURN(const Store store, ChooseStore(options, source->files()));
  MT_ASSIGN_OR_RETURN(ImportReport report, store == Store::kEncoded
                                               ? ImportEncoded(*source->files(), options, cancelled)
                                               : ImportPixels(*source, options, cancelled));
  report.format = format;
  report.seconds = ToSeconds(MonotonicNow() - start);
  return report;
}

}  // namespace mtrun::datasets
