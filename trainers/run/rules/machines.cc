#include "trainers/run/rules/machines.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainers/run/rules/ranks_by_text.h"

namespace mtrun::trainers {

Machines MachinesOf(const std::vector<std::string>& by_rank) {
  const RanksByText ranks = GroupByText(by_rank);
  Machines machines;
  for (const auto& item : ranks) {
    if (!item.first.empty()) machines.kinds.push_back(item.first);
  }
  if (ranks.size() > 1) machines.by_rank = DescribeRanks(ranks);
  return machines;
}

std::string DescribeOtherMachines(const std::vector<std::string>& before, const Machines& now,
                                  int64_t steps) {
  const std::set<std::string> known(before.begin(), before.end());
  if (std::includes(known.begin(), known.end(), now.kinds.begin(), now.kinds.end())) return "";
  if (!now.by_rank.empty())
    return absl::StrCat(
        "machines of different kinds compute this run, so its last bits depend on which of them "
        "computes an image: ",
        now.by_rank);
  if (before.empty()) return "";
  return absl::StrCat("this run was computed on ", absl::StrJoin(before, " and on "), " and continues on ",
                      absl::StrJoin(now.kinds, ""), ": its last bits can differ from step ", steps, " on");
}

std::vector<std::string> AllKinds(const std::vector<std::string>& before, const Machines& now) {
  std::set<std::string> all(before.begin(), before.end());
  all.insert(now.kinds.begin(), now.kinds.end());
  return {all.begin(), all.end()};
}

}  // namespace mtrun::trainers
