#include "page/sessions.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"

namespace mtrun::page {

void Sessions::Begin(const std::string& token, Role role, TimePoint now) {
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second->HasEnded(now); });
  if (sessions_.size() >= kMost) {
    const auto rank = [](const Session& session) {
      return std::pair(session.role() == Role::kOperator, session.ends());
    };
    const auto first =
        std::min_element(sessions_.begin(), sessions_.end(),
                         [&](const auto& a, const auto& b) { return rank(*a.second) < rank(*b.second); });
    first->second->End();
    sessions_.erase(first);
  }
  sessions_[Sha256Hex(token)] = std::make_shared<Session>(role, now + kLength);
}

std::shared_ptr<const Session> Sessions::Find(const std::string& token, TimePoint now) const {
  const auto found = sessions_.find(Sha256Hex(token));
  return found == sessions_.end() || found->second->HasEnded(now) ? nullptr : found->second;
}

void Sessions::End(const std::string& token) {
  const auto found = sessions_.find(Sha256Hex(token));
  if (found == sessions_.end()) return;
  found->second->End();
  sessions_.erase(found);
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
