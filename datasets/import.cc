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
#include "datasets/importers.h"
#include "datasets/packed_writer.h"
#include "datasets/progress.h"
#include "datasets/tar_reader.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedBadFiles = 20;
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

absl::Status BadFilesError(const std::string& source, const std::vector<BadFile>& bad) {
  std::string text = absl::StrCat(source, ": ", bad.size(), " bad image file", bad.size() == 1 ? "" : "s",
                                  " (nothing was imported; --skip_bad leaves them out):");
  for (size_t i = 0; i < bad.size() && i < kListedBadFiles; ++i)
    absl::StrAppend(&text, "\n  ", bad[i].path, ": ", bad[i].why);
  if (bad.size() > kListedBadFiles) absl::StrAppend(&text, "\n  and ", bad.size() - kListedBadFiles, " more");
  return absl::DataLossError(text);
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
  const ImageSize target = options.resize.value_or(ImageSize{shape.height, shape.width});
  shape.height = target.height;
  shape.width = target.width;
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<PackedWriter> writer,
                      PackedWriter::Create(options.destination, shape,
                                           {.shard_bytes = options.shard_bytes, .replace = options.replace}));
  std::atomic<int64_t> done = 0;
  ImageSink sink(*writer, target, done, cancelled);
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

}  // namespace

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
  ImportReport report;
  report.format = options.format;
  if (options.format == "auto") {
    MT_ASSIGN_OR_RETURN(report.format, DetectFormat(options.source));
  }
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source,
                      ImporterNamed(report.format)
                          .open(options.source, {.resize = options.resize, .limits = options.limits}));
  for (;;) {
    MT_ASSIGN_OR_RETURN(Attempt attempt, TryOnce(*source, options, cancelled));
    if (attempt.index) {
      report.index = std::move(*attempt.index);
      report.seconds = ToSeconds(MonotonicNow() - start);
      return report;
    }
    if (!options.skip_bad) return BadFilesError(options.source, attempt.bad);
    // Positions after a bad file move up, so the copy is made again without them.
    log::Info("leaving out ", attempt.bad.size(), " bad files, importing the others");
    report.left_out.insert(report.left_out.end(), attempt.bad.begin(), attempt.bad.end());
  }
}

}  // namespace mtrun::datasets
