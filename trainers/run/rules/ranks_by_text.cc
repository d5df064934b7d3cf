#include "trainers/run/rules/ranks_by_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::trainers {

RanksByText GroupByText(const std::vector<std::string>& texts) {
  RanksByText ranks;
  for (size_t rank = 0; rank < texts.size(); ++rank) ranks[texts[rank]].push_back(rank);
  return ranks;
}

std::string DescribeRanks(const RanksByText& ranks) {
  return absl::StrJoin(ranks, ", ", [](std::string* out, const RanksByText::value_type& item) {
    const std::string named =
        absl::StrCat(item.second.size() == 1 ? "rank " : "ranks ", absl::StrJoin(item.second, ", "));
    absl::StrAppend(out, item.first.empty() ? "nothing" : item.first, " (", named, ")");
  });
}

}  // namespace mtrun::trainers
