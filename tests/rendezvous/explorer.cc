#include "tests/rendezvous/explorer.h"

#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {
namespace {

struct Visit {
  ClusterSimulation world;
  const Visit* before;  // null for the first visit
  std::string action;
  int depth;
};

std::string PathTo(const Visit& visit, const std::string& last) {
  std::vector<std::string> names = {last};
  for (const Visit* at = &visit; at->before != nullptr; at = at->before) names.push_back(at->action);
  return absl::StrJoin(names.rbegin(), names.rend(), ", ");
}

/// Visited worlds by the hash of their text, which only selects a bucket: equality decides.
class Seen {
 public:
  bool Contains(const ClusterSimulation& world, size_t hash) const {
    const auto [first, last] = visits_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (it->second->world == world) return true;
    }
    return false;
  }
  void Add(const Visit& visit, size_t hash) { visits_.emplace(hash, &visit); }

 private:
  std::unordered_multimap<size_t, const Visit*> visits_;
};

size_t HashOf(const ClusterSimulation& world) {
  return std::hash<std::string>()(absl::StrCat(world.Text(), world.now().time_since_epoch().count()));
}

}  // namespace

Explored Explore(const ClusterSimulation& from, const std::vector<Action>& actions, int depth,
                 const std::vector<std::string>& goals) {
  std::deque<Visit> visits;  // in the order of their depth; elements stay where they are
  Seen seen;
  Explored explored;
  visits.push_back(Visit{from, nullptr, "", 0});
  seen.Add(visits.back(), HashOf(from));
  for (size_t i = 0; i < visits.size(); ++i) {
    const Visit& visit = visits[i];
    ++explored.states;
    ++explored.phases[visit.world.machine().View(visit.world.now()).phase];
    for (const Action& action : actions) {
      ClusterSimulation next = visit.world;
      const std::vector<std::string> lines = action.act(next);
      ++explored.transitions;
      for (const std::string& goal : goals) {
        for (const std::string& line : lines) explored.seen[goal] += absl::StrContains(line, goal) ? 1 : 0;
      }
      if (next.broken()) {
        explored.broken = absl::StrCat(*next.broken(), "\npath: ", PathTo(visit, action.name));
        return explored;
      }
      if (next.machine().Gone()) continue;  // its service forgets it, so it starts afresh
      if (visit.depth + 1 == depth) continue;
      const size_t hash = HashOf(next);
      if (seen.Contains(next, hash)) continue;
      visits.push_back(Visit{std::move(next), &visit, action.name, visit.depth + 1});
      seen.Add(visits.back(), hash);
    }
  }
  return explored;
}

}  // namespace mtrun::rendezvous
