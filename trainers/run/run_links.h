// `latest` and `best` in a run folder: links to checkpoints, for people and scripts. Nothing here reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mtrun::trainers {

inline constexpr char kLatestLink[] = "latest", kBestLink[] = "best";

/// Makes `folder`/latest point to the checkpoint of `latest`, and `folder`/best to that of `best`; without
/// such a checkpoint there is no such link. What has one of these names and is no link stays.
absl::Status UpdateLinks(const std::string& folder, int64_t latest, std::optional<int64_t> best);

}  // namespace mtrun::trainers
