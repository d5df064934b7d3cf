#include "page/sessions.h"

#include <algorithm>

namespace mtrun::page {

void Sessions::Begin(const std::string& cookie, const std::string& csrf, Role role, TimePoint now) {
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.ends <= now; });
  if (sessions_.size() >= kMost) {
    sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(), [](const auto& a, const auto& b) {
      return a.second.ends < b.second.ends;
    }));
  }
  sessions_[cookie] = {role, csrf, now + kLength};
}

std::optional<Session> Sessions::Find(const std::string& cookie, TimePoint now) const {
  const auto found = sessions_.find(cookie);
  if (cookie.empty() || found == sessions_.end() || found->second.ends <= now) return std::nullopt;
  return found->second;
}

bool Attempts::Take(const std::string& peer, TimePoint now) {
  return TakeFrom(Of(peer, now), kEach, kBackEach, now) && TakeFrom(all_, kAll, kBackAll, now);
}

bool Attempts::TakeFrom(Bucket& bucket, int most, Duration back, TimePoint now) {
  bucket.left = std::min<double>(most, bucket.left + ToSeconds(now - bucket.at) / ToSeconds(back));
  bucket.at = now;
  if (bucket.left < 1) return false;
  bucket.left -= 1;
  return true;
}

Attempts::Bucket& Attempts::Of(const std::string& peer, TimePoint now) {
  if (const auto found = peers_.find(peer); found != peers_.end()) return found->second;
  std::erase_if(peers_, [&](const auto& entry) { return now - entry.second.at > kEach * kBackEach; });
  if (peers_.size() >= kMaxPeers) return others_;
  return peers_[peer] = {kEach, now};
}

}  // namespace mtrun::page
