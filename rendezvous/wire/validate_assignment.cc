#include "rendezvous/wire/validate_assignment.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::rendezvous {
namespace {

absl::Status ValidateEarlier(const EarlierGeneration& earlier, const std::set<std::string>& members) {
  std::set<std::string> others;
  for (const Member& other : earlier.others) {
    if (members.contains(other.node_id) || !others.insert(other.node_id).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(earlier.generation), ", an earlier one, names node \"", other.node_id, "\" twice"));
    }
  }
  const auto outside = [&](const std::vector<std::string>& ids, const std::set<std::string>& of) {
    return std::any_of(ids.begin(), ids.end(), [&](const std::string& id) { return !of.contains(id); });
  };
  if (!outside(earlier.newcomers, members) && !outside(earlier.gone, others)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(earlier.generation), ", an earlier one, names nodes that are not in it"));
}

}  // namespace

absl::Status ValidateAssignment(const Assignment& assignment) {
  std::set<std::string> ids;
  int next_rank = 0;
  for (size_t i = 0; i < assignment.members.size(); ++i) {
    const Member& member = assignment.members[i];
    if (!ids.insert(member.node_id).second) {
      return absl::InvalidArgumentError(absl::StrCat("assignment names node \"", member.node_id, "\" twice"));
    }
    if (member.node_rank != static_cast<int>(i) || member.first_rank != next_rank || member.workers < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("assignment's ranks are not contiguous at node \"", member.node_id, "\""));
    }
    next_rank += member.workers;
  }
  if (next_rank != assignment.world_size || assignment.members.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("assignment has ", next_rank, " workers, its world size is ", assignment.world_size));
  }
  for (const EarlierGeneration& earlier : assignment.earlier)
    MT_RETURN_IF_ERROR(ValidateEarlier(earlier, ids));
  return absl::OkStatus();
}

}  // namespace mtrun::rendezvous
