// Makes a set of encoded images (packed format version 2) from the image files of a source.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "datasets/import/image_files.h"
#include "datasets/import/import.h"

namespace mtrun::datasets {

/// Decodes every image once, on options.threads threads, with at most four shards in memory. The resulting
/// bytes depend only on the source and the rules. If the import ends early, finished shards stay in
/// `.<name>.partial-<key>` beside the destination, and the next import with the same key (ImportKey)
/// continues there. A shard with a file that could not be read is made again.
/// kDataLoss lists the bad files, unless they are to be left out; kCancelled once `cancelled` is true.
absl::StatusOr<ImportReport> ImportEncoded(const ImageFiles& files, const ImportOptions& options,
                                           const std::atomic<bool>& cancelled);

}  // namespace mtrun::datasets
