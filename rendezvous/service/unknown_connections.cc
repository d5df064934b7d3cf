#include "rendezvous/service/unknown_connections.h"

#include <algorithm>

namespace mtrun::rendezvous {

std::string UnknownConnections::MachineOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

std::optional<uint64_t> UnknownConnections::Add(uint64_t id, const std::string& peer, TimePoint now) {
  std::optional<uint64_t> goes;
  if (connections_.size() >= limits_.most) goes = OldestOfMost();
  connections_.emplace(id, Connection{peer, now});
  ids_[peer] = id;
  of_machine_[MachineOf(peer)].insert(id);
  return goes;
}

std::optional<uint64_t> UnknownConnections::Knows(const std::string& peer) {
  const auto found = ids_.find(peer);
  if (found == ids_.end()) return std::nullopt;
  const uint64_t id = found->second;
  Remove(id);
  return id;
}

std::optional<std::string> UnknownConnections::Remove(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return std::nullopt;
  std::string peer = std::move(found->second.peer);
  connections_.erase(found);
  if (const auto same = ids_.find(peer); same != ids_.end() && same->second == id) ids_.erase(same);
  const auto machine = of_machine_.find(MachineOf(peer));
  machine->second.erase(id);
  if (machine->second.empty()) of_machine_.erase(machine);
  return peer;
}

std::vector<uint64_t> UnknownConnections::Late(TimePoint now) const {
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (now - connection.since < limits_.patience) break;  // the others are younger
    late.push_back(id);
  }
  return late;
}

std::optional<TimePoint> UnknownConnections::NextDeadline() const {
  if (connections_.empty()) return std::nullopt;
  return connections_.begin()->second.since + limits_.patience;
}

uint64_t UnknownConnections::OldestOfMost() const {
  const auto most =
      std::max_element(of_machine_.begin(), of_machine_.end(),
                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return *most->second.begin();
}

}  // namespace mtrun::rendezvous
