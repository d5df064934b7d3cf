// Looks a key up in a map, with a default. Pure.
#pragma once

namespace mtrun {

/// Returns the value of `key`, or `otherwise` if the map has none.
template <typename Map>
typename Map::mapped_type ValueOr(const Map& map, const typename Map::key_type& key,
                                  const typename Map::mapped_type& otherwise = {}) {
  const auto found = map.find(key);
  return found == map.end() ? otherwise : found->second;
}

}  // namespace mtrun
