#include "trainers/collectives/strangers.h"

#include <algorithm>
#include <deque>
#include <map>

namespace mtrun::collectives {

std::vector<size_t> ChooseDropped(const std::vector<std::string>& places, size_t count) {
  std::map<std::string, std::deque<size_t>> of;  // by place, the oldest first
  for (size_t i = 0; i < places.size(); ++i) of[places[i]].push_back(i);
  std::vector<size_t> dropped;
  while (dropped.size() < std::min(count, places.size())) {
    auto& most = std::max_element(of.begin(), of.end(), [](const auto& a, const auto& b) {
                   return a.second.size() < b.second.size();
                 })->second;
    dropped.push_back(most.front());
    most.pop_front();
  }
  return dropped;
}

}  // namespace mtrun::collectives
