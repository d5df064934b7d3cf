// A file of a set while it comes: a part beside its place, or the index as text. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "datasets/remote/fetch_plan.h"
#include "datasets/remote/part_file.h"

namespace mtrun::datasets {

struct FetchJob {
  FetchId id;
  std::string source;            // whose secrets open it
  std::optional<PartFile> part;  // none: the index
  std::string text;              // of the index
  absl::Status refused;          // what keeps it from being written down here
  int hops = 0;                  // redirects that were followed

  /// Takes what has come of it; `offset` is the place in the file. An error stays in `refused`; kDataLoss:
  /// more than the file has, or than any index.
  absl::Status Take(int64_t offset, std::string_view bytes);
  /// PartFile::Finish; an error that is not the bytes' fault stays in `refused`.
  absl::Status Finish();
};

}  // namespace mtrun::datasets
