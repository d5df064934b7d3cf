// Finds a node in the membership of a generation by its id: made once with the generation, since there may be
// thousands of members and most events of a job ask for one. A value, equal for equal memberships.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class MemberIndex {
 public:
  MemberIndex() = default;
  explicit MemberIndex(const std::vector<Member>& members);

  /// Null for none. REQUIRES: the index was made of these `members`.
  const Member* Find(const std::vector<Member>& members, const std::string& node_id) const;
  bool operator==(const MemberIndex&) const = default;

 private:
  std::vector<uint32_t> by_id_;  // places in the membership, in order of node ids
};

}  // namespace mtrun::rendezvous
