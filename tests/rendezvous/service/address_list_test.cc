#include "rendezvous/service/address_list.h"

#include <errno.h>
#include <sys/socket.h>

#include <functional>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

TEST(AddressList, OnlyAPermanentLackMakesAnAddressUnusable) {
  const AddressList four = Resolve({"127.0.0.1", 9}), six = Resolve({"::1", 9});
  ASSERT_TRUE(four && six);
  ASSERT_EQ(four->ai_family, AF_INET);
  ASSERT_EQ(six->ai_family, AF_INET6);
  const std::function<bool()> has = [] { return true; }, has_not = [] { return false; };
  EXPECT_TRUE(CannotBeAsked(*four, EAFNOSUPPORT, has));
  EXPECT_TRUE(CannotBeAsked(*six, EAFNOSUPPORT, has));
  for (const int no_way : {ENETUNREACH, EADDRNOTAVAIL}) {
    EXPECT_TRUE(CannotBeAsked(*six, no_way, has_not)) << no_way;
    EXPECT_FALSE(CannotBeAsked(*six, no_way, has)) << no_way << ": its route may be back a moment later";
    EXPECT_FALSE(CannotBeAsked(*four, no_way, has_not)) << no_way;
  }
  for (const int other : {0, EINPROGRESS, ECONNREFUSED, EHOSTUNREACH, EMFILE}) {
    EXPECT_FALSE(CannotBeAsked(*four, other, has_not)) << other;
    EXPECT_FALSE(CannotBeAsked(*six, other, has_not)) << other;
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
