// Lists in words which ranks have which text.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mtrun::trainers {

/// Ranks by the text that they have.
using RanksByText = std::map<std::string, std::vector<size_t>>;

/// texts[rank]: that rank's.
RanksByText GroupByText(const std::vector<std::string>& texts);
/// Returns for example "bf16 (rank 1), off (ranks 0, 2)"; an empty text is "nothing".
std::string DescribeRanks(const RanksByText& ranks);

}  // namespace mtrun::trainers
