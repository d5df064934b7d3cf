// `latest` and `best` in a run folder: links to checkpoints, for people and scripts. Nothing here reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mtrun::trainers {

inline constexpr char kLatestLink[] = "latest", kBestLink[] = "best";

/// Points `folder`/latest to the checkpoint of `latest`, and `folder`/best to that of `best`. Removes a link
/// if its checkpoint does not exist. Keeps a file of such a name if it is not a link.
absl::Status UpdateLinks(const std::string& folder, int64_t latest, std::optional<int64_t> best);

}  // namespace mtrun::trainers
