#include "datasets/remote/fetch_plan.h"

#include <algorithm>

namespace mtrun::datasets {

void FetchPlan::Want(int64_t client, const std::string& set, std::vector<std::string> files) {
  clients_[client] = {set, std::move(files)};
}

void FetchPlan::Leave(int64_t client) { clients_.erase(client); }

const std::string* FetchPlan::FirstOf(const Client& client, TimePoint now) const {
  for (const std::string& file : client.files) {
    const FetchId id{client.set, file};
    const auto paused = paused_.find(id);
    if (busy_.count(id) == 0 && (paused == paused_.end() || paused->second <= now)) return &file;
  }
  return nullptr;
}

std::optional<FetchId> FetchPlan::Next(TimePoint now) {
  if (busy_.size() >= connections_) return std::nullopt;
  // In turns: the next client after the last one served comes first.
  for (const bool behind : {true, false}) {
    for (const auto& [number, client] : clients_) {
      if ((number > last_served_) != behind) continue;
      const std::string* file = FirstOf(client, now);
      if (file == nullptr) continue;
      FetchId id{client.set, *file};
      last_served_ = number;
      paused_.erase(id);
      busy_.insert(id);
      return id;
    }
  }
  return std::nullopt;
}

std::optional<TimePoint> FetchPlan::NextLook(TimePoint now) const {
  // While all connections are busy, the fetcher waits for the end of a transfer; a time in the past would
  // wake it continuously.
  if (busy_.size() >= connections_) return std::nullopt;
  std::optional<TimePoint> next;
  for (const auto& [id, when] : paused_) {
    if (IsWanted(id)) next = Earlier(next, std::max(when, now));
  }
  return next;
}

void FetchPlan::Done(const FetchId& id) {
  busy_.erase(id);
  paused_.erase(id);
  tries_.erase(id);
  for (auto& [number, client] : clients_) {
    if (client.set == id.set) std::erase(client.files, id.file);
  }
}

void FetchPlan::Pause(const FetchId& id, TimePoint when) {
  busy_.erase(id);
  paused_[id] = when;
}

bool FetchPlan::IsWanted(const FetchId& id) const {
  return std::any_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
    const Client& client = entry.second;
    return client.set == id.set &&
           std::find(client.files.begin(), client.files.end(), id.file) != client.files.end();
  });
}

}  // namespace mtrun::datasets
