// Makes a set of encoded images (packed format version 2) from the image files of a source.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "datasets/image_files.h"
#include "datasets/import.h"

namespace mtrun::datasets {

/// Decodes every image once, on options.threads threads, with at most four shards in memory. The bytes depend
/// on the source and the rules alone. A shard that is finished stays in `.<name>.partial-<key>` beside the
/// destination, whatever ends the import, and the next one with the same key (ImportKey) goes on from there;
/// not one with a file that could not be read, which is made again.
/// kDataLoss lists the bad files, unless they are to be left out; kCancelled once `cancelled` is true.
absl::StatusOr<ImportReport> ImportEncoded(const ImageFiles& files, const ImportOptions& options,
                                           const std::atomic<bool>& cancelled);

}  // namespace mtrun::datasets
