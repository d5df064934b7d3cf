// The names that wrappers of networks give to weights: DataParallel and DistributedDataParallel ("module."),
// torch.compile ("_orig_mod."), Lightning ("model."), AveragedModel ("module." and n_averaged). Pure
// functions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mtrun::trainers {

/// Returns the names without prefixes of wrappers that all of them have, in their order; nullopt: the entry
/// is a wrapper's own. Of the possible results it is the one with most names in `wanted`, and among equals
/// the one with the most prefixes removed.
std::vector<std::optional<std::string>> WithoutWrappers(const std::vector<std::string>& names,
                                                        const std::set<std::string>& wanted);

}  // namespace mtrun::trainers
