#include "trainers/weights/wrapper_names.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"

namespace mtrun::trainers {
namespace {

using Names = std::vector<std::optional<std::string>>;

constexpr char kCounter[] = "n_averaged";  // of AveragedModel

/// Removes `prefix` from all names. Returns false if one of them does not have it.
bool RemovePrefix(Names& names, const std::string& prefix) {
  Names shorter = names;
  bool any = false;
  for (std::optional<std::string>& name : shorter) {
    if (name == kCounter) name.reset();
    if (!name) continue;
    if (!absl::StartsWith(*name, prefix)) return false;
    name->erase(0, prefix.size());
    any = true;
  }
  if (any) names = std::move(shorter);
  return any;
}

std::ptrdiff_t Matches(const Names& names, const std::set<std::string>& wanted) {
  return std::count_if(names.begin(), names.end(),
                       [&](const auto& name) { return name && wanted.count(*name) > 0; });
}

}  // namespace

Names WithoutWrappers(const std::vector<std::string>& names, const std::set<std::string>& wanted) {
  Names now(names.begin(), names.end()), best = now;
  const auto removed = [&] {
    return RemovePrefix(now, "module.") || RemovePrefix(now, "_orig_mod.") || RemovePrefix(now, "model.");
  };
  while (removed()) {
    if (Matches(now, wanted) >= Matches(best, wanted)) best = now;
  }
  return best;
}

}  // namespace mtrun::trainers
