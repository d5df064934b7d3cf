// What a mistyped name may have meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

/// Up to three candidates that share a word with `name` ("nprocs": "nproc_per_node"; words stand between
/// underscores).
std::vector<std::string> RelatedNames(std::string_view name, const std::vector<std::string>& candidates);

/// The candidate with the smallest edit distance to `name`, "" when none is near.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace mtrun
