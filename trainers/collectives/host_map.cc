#include "trainers/collectives/host_map.h"

#include <map>

namespace mtrun::collectives {

HostMap MapHosts(const std::vector<std::string>& ids) {
  HostMap map;
  std::map<std::string, int> known;
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    const int host = known.emplace(ids[rank], static_cast<int>(known.size())).first->second;
    map.ranks_of.resize(known.size());
    std::vector<int>& ranks = map.ranks_of[static_cast<size_t>(host)];
    map.host_of.push_back(host);
    map.index_of.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(rank));
  }
  return map;
}

}  // namespace mtrun::collectives
