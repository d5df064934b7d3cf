// Makes a packed data set from whatever a source is: finds the importer, checks the disk, copies with all
// cores, publishes.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/image_source.h"
#include "datasets/images/image.h"
#include "datasets/index.h"

namespace mtrun::datasets {

/// What a packed set keeps of an image: its pixels, or a JPEG or PNG file. kAuto: pixels where the source has
/// no image files, where the rules give all images one size, and where all have one of at most 64x64 pixels.
enum class Store { kAuto, kPixels, kEncoded };

struct ImportOptions {
  std::string source;            // folder, archive, or brace list of archives
  std::string destination = "";  // folder to make
  std::string format = "auto";   // or one of ImporterNames
  std::string val_source = "", test_source = "", val_labels = "", class_list = "";  // see SourceOptions
  Store store = Store::kPixels;
  ImageRules rules = {};
  TreeOptions tree = {};
  bool skip_bad = false;
  bool replace = false;  // a data set that is there
  int threads = 1;
  int64_t shard_bytes = 64 << 20;
};

struct ImportReport {
  Index index;
  std::string format;             // the importer that was used
  std::vector<BadFile> left_out;  // only with skip_bad
  LeftOut counts = {};            // what else was left out
  double seconds = 0;
};

/// The name of the importer (importers.h); kInvalidArgument tells what each of them looks like; kNotFound
/// when there is no such path.
/// `unlabelled`: images may lie in the folder itself.
absl::StatusOr<std::string> DetectFormat(const std::string& source, bool unlabelled = false);

/// The error that lists them, the first 20 by name.
absl::Status BadFilesError(const std::string& source, const std::vector<BadFile>& bad);

/// Imports. The result depends on the source's contents and the size asked for only, not on threads. On any
/// error, and once `cancelled` is true (kCancelled), the destination is as it was before; finished shards of
/// encoded images are kept beside it for the next attempt. Without skip_bad a
/// bad image file is an error that lists all of them (the first 20 by name). kInvalidArgument where a source
/// lies in the destination, kAlreadyExists as AtomicFolder.
absl::StatusOr<ImportReport> Import(const ImportOptions& options, const std::atomic<bool>& cancelled);

}  // namespace mtrun::datasets
