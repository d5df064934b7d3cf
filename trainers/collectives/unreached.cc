#include "trainers/collectives/unreached.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"

namespace mtrun::collectives {

std::optional<std::chrono::milliseconds> Unreached::DueIn(TimePoint now) const {
  if (!notice_at_) return std::nullopt;
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(*notice_at_ - now),
                  std::chrono::milliseconds(0));
}

void Unreached::Look(const std::list<Link>& links, const std::set<int>& connected, TimePoint now) {
  if (!notice_at_ || now < *notice_at_) return;
  notice_at_.reset();
  std::set<int> connecting, answering = connected;
  for (const Link& link : links) {
    if (!link.dialed() || link.local()) continue;
    (link.state() == Link::State::kConnecting ? connecting : answering).insert(link.peer());
  }
  for (const int rank : connecting) {
    if (!answering.contains(rank)) Tell(rank);
  }
}

void Unreached::OnFailed(int rank, const absl::Status& why) {
  const auto says = [&](int error) { return absl::StrContains(why.message(), std::strerror(error)); };
  if (says(EHOSTUNREACH) || says(ENETUNREACH) || says(ETIMEDOUT)) Tell(rank);
}

void Unreached::Tell(int rank) {
  if (tell_ && told_.size() < kMaxTold && told_.insert(rank).second) tell_(rank);
}

}  // namespace mtrun::collectives
