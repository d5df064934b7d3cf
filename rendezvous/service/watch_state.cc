#include "rendezvous/service/watch_state.h"

#include <algorithm>

namespace mtrun::rendezvous {

std::optional<int64_t> WatchState::OnWatched(TimePoint now) {
  if (asked_at_ && now - *asked_at_ < kAskPause) return std::nullopt;
  asked_at_ = now;
  return ++asked_;
}

void WatchState::OnUse(const NodeKey& node, NodeUse use, TimePoint now) {
  uses_[node] = {std::move(use), now};
}

void WatchState::OnLine(const std::string& job_id, int64_t wall_ns, const std::string& text,
                        const std::optional<Cause>& cause) {
  std::deque<Happening>& lines = happenings_[job_id];
  std::erase(told_of_, job_id);
  told_of_.push_back(job_id);
  lines.push_back({job_id, ++happened_, wall_ns, text.substr(0, kMaxName * 4), cause});
  if (lines.size() > kMaxHappenings) lines.pop_front();
  if (told_of_.size() <= kMaxEnded) return;
  happenings_.erase(told_of_.front());
  told_of_.pop_front();
}

void WatchState::OnEnded(const JobView& job, TimePoint now) {
  ended_[job.settings.job_id] = {job, now};
  if (ended_.size() <= kMaxEnded) return;
  ended_.erase(std::min_element(ended_.begin(), ended_.end(),
                                [](const auto& a, const auto& b) { return a.second.at < b.second.at; }));
}

std::vector<WatchedNode> WatchState::Uses(TimePoint now) const {
  std::vector<WatchedNode> nodes;
  for (const auto& [key, use] : uses_) nodes.push_back({key.first, key.second, now - use.second, use.first});
  return nodes;
}

std::vector<Happening> WatchState::Happenings() const {
  std::vector<Happening> all;
  for (const auto& [job_id, lines] : happenings_) all.insert(all.end(), lines.begin(), lines.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return all;
}

std::vector<WatchState::Ended> WatchState::EndedJobs(TimePoint now) {
  std::erase_if(ended_, [&](const auto& entry) { return now - entry.second.at > kEndedShown; });
  std::vector<Ended> all;
  for (const auto& [job_id, ended] : ended_) all.push_back(ended);
  return all;
}

}  // namespace mtrun::rendezvous
