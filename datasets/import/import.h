// Makes a packed data set from a source of any known format: finds the importer, checks the disk, copies with
// all cores, publishes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/import/image_source.h"
#include "datasets/import/import_options.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

struct ImportReport {
  Index index;
  std::string format;             // the importer that was used
  std::vector<BadFile> left_out;  // only with skip_bad
  LeftOut counts = {};            // other files that were left out
  int64_t oriented = 0;           // images whose files had an orientation; turned, or kept as stored
  double seconds = 0;
};

/// Returns the name of the importer (importers.h). kInvalidArgument lists the known formats; kNotFound: the
/// path does not exist. `unlabelled`: images may be in the folder itself.
absl::StatusOr<std::string> DetectFormat(const std::string& source, bool unlabelled = false);

/// Returns an error that lists the bad files, the first 20 by name.
absl::Status BadFilesError(const std::string& source, const std::vector<BadFile>& bad);

/// Imports. The result depends only on the source's contents and the options, not on threads. On any error,
/// and once `cancelled` is true (kCancelled), the destination is unchanged; finished shards of encoded images
/// stay beside it for the next attempt. Without skip_bad, bad image files are an error that lists them
/// (BadFilesError). kInvalidArgument: a source is inside the destination; kAlreadyExists as for AtomicFolder.
absl::StatusOr<ImportReport> Import(const ImportOptions& options, const std::atomic<bool>& cancelled);

}  // namespace mtrun::datasets
