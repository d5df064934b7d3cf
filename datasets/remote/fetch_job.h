// A file of a set during its transfer: a part beside its final path, or the index as text. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "datasets/remote/fetch_plan.h"
#include "datasets/remote/fetch_rules.h"
#include "datasets/remote/part_file.h"

namespace mtrun::datasets {

struct FetchJob {
  FetchId id;
  std::string source;                   // the source whose secrets are used
  std::optional<PartFile> part;         // none: the index
  std::string text;                     // of the index
  absl::Status refused;                 // why it cannot be stored here
  int hops = 0;                         // number of redirects followed
  std::optional<SlowWatch> watch = {};  // since the transfer began
  std::string slow = "";                // what was reported of its speed, "" if nothing

  /// Stores received bytes; `offset` is their position in the file. An error is kept in `refused`; kDataLoss:
  /// more bytes than the file, or any index, has.
  absl::Status Take(int64_t offset, std::string_view bytes);
  /// Calls PartFile::Finish; an error that is not caused by the bytes is kept in `refused`.
  absl::Status Finish();
};

}  // namespace mtrun::datasets
