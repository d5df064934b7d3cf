// Finds a member of a generation by its node id. Made once for the generation, because there may be thousands
// of members and most events of a job look one up. A value, equal for equal memberships.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class MemberIndex {
 public:
  MemberIndex() = default;
  explicit MemberIndex(const std::vector<Member>& members);

  /// Returns null if there is none. REQUIRES: the index was made of these `members`.
  const Member* Find(const std::vector<Member>& members, const std::string& node_id) const;
  bool operator==(const MemberIndex&) const = default;

 private:
  std::vector<uint32_t> by_id_;  // places in the membership, in order of node ids
};

}  // namespace mtrun::rendezvous
