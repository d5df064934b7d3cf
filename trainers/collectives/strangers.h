// Which connections a listener gives up when too many have not said who they are. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mtrun::collectives {

/// `places[i]`: where connection i comes from, the oldest first. Chooses `count` of them, one after the other
/// the one that base/crowd.h says: whoever opens very many loses its own, and not those of a peer that is
/// slow to greet.
std::vector<size_t> ChooseDropped(const std::vector<std::string>& places, size_t count);

}  // namespace mtrun::collectives
