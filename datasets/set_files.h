// Which files a packed set is made of, so that no other is removed or given away with one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mtrun::datasets {

/// Of "shard_00000.safetensors": at least five digits. Pure.
bool IsShardName(std::string_view name);

/// OK where `folder` is a packed set (its index may be damaged, or of another version) and holds nothing else
/// but what an import that was killed may have left in it. kAlreadyExists names what is missing, or the first
/// entry that is of others.
absl::Status CheckHoldsASetAlone(const std::string& folder);

}  // namespace mtrun::datasets
