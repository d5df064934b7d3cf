#include "rendezvous/job/end_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

bool EndCheck::MayEnd(bool all_here, TimePoint now) {
  if (all_here || answered_) return true;
  if (!since_) since_ = now;
  return now >= *since_ + longest_;
}

const PeerService* EndCheck::OnProbed(const std::vector<PeerService>& peers, const Generation& generation,
                                      TimePoint seen) {
  if (!waits()) return nullptr;
  const auto there = std::find_if(peers.begin(), peers.end(), [&](const PeerService& peer) {
    return peer.authority && peer.generation >= generation;
  });
  if (there != peers.end()) return &*there;
  answered_ = seen >= *since_ && std::none_of(peers.begin(), peers.end(), [](const PeerService& peer) {
                return peer.state == PeerService::State::kSilent;
              });
  return nullptr;
}

std::string EndCheck::Describe(TimePoint now) const {
  return waits() ? absl::StrCat("asks other services before the end, ", Until(due(), now)) : "";
}

}  // namespace mtrun::rendezvous
