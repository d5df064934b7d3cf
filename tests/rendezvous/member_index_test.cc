#include "rendezvous/authority/member_index.h"

#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

TEST(MemberIndex, FindsExactlyTheMembers) {
  const std::vector<Member> members = MakeGeneration(1, {"node2", "node10", "node1"}).members;
  const MemberIndex index(members);
  for (const Member& member : members) EXPECT_EQ(index.Find(members, member.node_id), &member);
  for (const char* other : {"", "node", "node3", "node11"}) EXPECT_EQ(index.Find(members, other), nullptr);
  EXPECT_EQ(MemberIndex().Find({}, "node1"), nullptr);
}

TEST(MemberIndex, IsValidForACopyOfTheMembers) {
  const std::vector<Member> members = MakeGeneration(1, {"b", "a"}).members;
  const MemberIndex index(members);
  const std::vector<Member> copy = members;
  EXPECT_EQ(index.Find(copy, "a"), &copy[1]);
  EXPECT_EQ(index, MemberIndex(copy));
  EXPECT_FALSE(index == MemberIndex());
}

}  // namespace
}  // namespace mtrun::rendezvous
