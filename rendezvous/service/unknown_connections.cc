#include "rendezvous/service/unknown_connections.h"

#include "absl/strings/str_replace.h"

namespace mtrun::rendezvous {
namespace {

std::string AddressOf(const std::string& peer) {
  return absl::StrReplaceAll(peer.substr(0, peer.rfind(':')), {{"[", ""}, {"]", ""}});
}

}  // namespace

std::optional<uint64_t> UnknownConnections::Add(uint64_t id, const std::string& peer, TimePoint now) {
  std::optional<uint64_t> goes;
  if (connections_.size() >= limits_.most) goes = groups_.First();
  connections_.emplace(id, Connection{peer, now});
  ids_[peer] = id;
  groups_.Add(id, AddressOf(peer));
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
  groups_.Remove(id);
  return peer;
}

std::vector<uint64_t> UnknownConnections::Late(TimePoint now) const {
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (now - connection.since < limits_.timeout) break;  // the others are younger
    late.push_back(id);
  }
  return late;
}

std::optional<TimePoint> UnknownConnections::NextDeadline() const {
  if (connections_.empty()) return std::nullopt;
  return connections_.begin()->second.since + limits_.timeout;
}

}  // namespace mtrun::rendezvous
