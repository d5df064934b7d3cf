#include "datasets/remote/fetch_job.h"

#include "datasets/packed/index.h"

namespace mtrun::datasets {

absl::Status FetchJob::Take(int64_t offset, std::string_view bytes) {
  if (!part) {
    if (text.size() + bytes.size() > kMaxIndexBytes) {
      refused = absl::DataLossError(
          "is larger than 256 MiB, so it is not the index of a data set: check the URL, or pack the set "
          "again "
          "with a larger --shard_mib");
    } else {
      text.append(bytes);
    }
    return refused;
  }
  // A server without range support sends the file from its first byte.
  if (offset == 0 && part->size() > 0) refused = part->Restart();
  if (refused.ok()) refused = part->Append(bytes);
  return refused;
}

absl::Status FetchJob::Finish() {
  absl::Status finished = part->Finish();
  if (!absl::IsAborted(finished) && !absl::IsDataLoss(finished)) refused = finished;
  return finished;
}

}  // namespace mtrun::datasets
