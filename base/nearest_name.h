// Guesses what a mistyped name may have meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

/// Returns up to three candidates that share a word with `name` ("nprocs": "nproc_per_node"); underscores
/// separate words.
std::vector<std::string> RelatedNames(std::string_view name, const std::vector<std::string>& candidates);

/// Returns the candidate with the smallest edit distance to `name`, "" if none is near.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace mtrun
