// The files of a packed set, so that no other file is removed or served with it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mtrun::datasets {

/// Returns true for "shard_00000.safetensors": at least five digits. Pure.
bool IsShardName(std::string_view name);

/// Returns OK if `folder` is a packed set (its index may be damaged or of another version) and has nothing
/// else but remains of a killed import. kAlreadyExists names what is missing, or the first foreign entry.
absl::Status CheckHoldsASetAlone(const std::string& folder);

}  // namespace mtrun::datasets
