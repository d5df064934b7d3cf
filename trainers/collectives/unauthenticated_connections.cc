#include "trainers/collectives/unauthenticated_connections.h"

#include <algorithm>

#include "base/unauthenticated_connections.h"

namespace mtrun::collectives {

std::vector<size_t> ChooseDropped(const std::vector<std::string>& places, size_t count) {
  UnauthenticatedConnections crowd;
  for (size_t i = 0; i < places.size(); ++i) crowd.Add(i, places[i]);
  std::vector<size_t> dropped;
  while (dropped.size() < std::min(count, places.size())) {
    dropped.push_back(crowd.First());
    crowd.Remove(dropped.back());
  }
  return dropped;
}

}  // namespace mtrun::collectives
