#include "datasets/import.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datasets/cifar.h"
#include "datasets/idx.h"
#include "datasets/image_folder.h"
#include "datasets/packed_writer.h"
#include "datasets/progress.h"
#include "datasets/tar_reader.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListedBadFiles = 20;
constexpr char kKnown[] =
    "known are: cifar (data_batch_*.bin and test_batch.bin, or train.bin and test.bin, in a folder or a tar "
    "archive), "
    "idx (a folder with train-images-idx3-ubyte[.gz] and its three companions), "
    "folder (train/<class>/<image> with test/... or val/..., as a folder or a tar archive)";
constexpr char kPythonCifar[] =
    "is the Python version of CIFAR, which only Python can read; take the binary version "
    "(cifar-10-binary.tar.gz)";

/// Names in the archive up to the first that tells what it is.
absl::StatusOr<std::string> DetectArchive(const std::string& source) {
  MT_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(source));
  std::vector<std::string> names;
  for (;;) {
    MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    names.push_back(reader.name());
    if (LooksLikeCifar(names)) return "cifar";
    if (LooksLikePythonCifar(names))
      return absl::InvalidArgumentError(absl::StrCat(source, " ", kPythonCifar));
    if (ListTree({reader.name()}).ok()) return "folder";
    if (names.size() > 1000) break;
  }
  return "folder";  // its listing says in detail what does not fit
}

absl::StatusOr<std::string> DetectFolder(const std::string& source) {
  if (LooksLikeIdx(source)) return "idx";
  if (!FindCifarFolder(source).empty()) return "cifar";
  if (LooksLikeImageFolder(source)) return "folder";
  std::error_code error;
  if (fs::exists(fs::path(source) / "data_batch_1", error)) {
    return absl::InvalidArgumentError(absl::StrCat(source, " ", kPythonCifar));
  }
  return absl::InvalidArgumentError(absl::StrCat(source, " is no data set in a known format; ", kKnown));
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenSource(const std::string& format,
                                                        const ImportOptions& options) {
  if (format == "cifar") return OpenCifar(options.source);
  if (format == "idx") return OpenIdx(options.source);
  return OpenImageFolder(options.source, options.resize);
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
  return absl::InvalidArgumentError(
      absl::StrCat(source, " is neither a folder nor a tar archive (.tar, .tar.gz, .tgz, ...); ", kKnown));
}

absl::StatusOr<ImportReport> Import(const ImportOptions& options, const std::atomic<bool>& cancelled) {
  const TimePoint start = MonotonicNow();
  ImportReport report;
  report.format = options.format;
  if (options.format == "auto") {
    MT_ASSIGN_OR_RETURN(report.format, DetectFormat(options.source));
  }
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, OpenSource(report.format, options));
  for (;;) {
    MT_ASSIGN_OR_RETURN(Attempt attempt, TryOnce(*source, options, cancelled));
    if (attempt.index) {
      report.index = std::move(*attempt.index);
      report.seconds = ToSeconds(MonotonicNow() - start);
      return report;
    }
    if (!options.skip_bad) return BadFilesError(options.source, attempt.bad);
    // Positions behind a bad file move up, so the copy is made again without them.
    log::Info("leaving out ", attempt.bad.size(), " bad files, importing the others");
    report.left_out.insert(report.left_out.end(), attempt.bad.begin(), attempt.bad.end());
  }
}

}  // namespace mtrun::datasets
