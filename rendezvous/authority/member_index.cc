#include "rendezvous/authority/member_index.h"

#include <algorithm>
#include <numeric>

namespace mtrun::rendezvous {

MemberIndex::MemberIndex(const std::vector<Member>& members) : by_id_(members.size()) {
  std::iota(by_id_.begin(), by_id_.end(), 0);
  std::stable_sort(by_id_.begin(), by_id_.end(),
                   [&](uint32_t a, uint32_t b) { return members[a].node_id < members[b].node_id; });
}

const Member* MemberIndex::Find(const std::vector<Member>& members, const std::string& node_id) const {
  const auto found =
      std::lower_bound(by_id_.begin(), by_id_.end(), node_id,
                       [&](uint32_t place, const std::string& id) { return members[place].node_id < id; });
  return found == by_id_.end() || members[*found].node_id != node_id ? nullptr : &members[*found];
}

}  // namespace mtrun::rendezvous
