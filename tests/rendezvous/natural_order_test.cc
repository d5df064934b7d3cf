#include "rendezvous/authority/natural_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

TEST(NaturalLess, ComparesNumbersAsNumbers) {
  std::vector<std::string> names = {
      "node10", "node2", "node1", "node02", "a9b3", "a9b12", "node", "node2x", "99999999999999999999", ""};
  std::sort(names.begin(), names.end(), NaturalLess);
  EXPECT_THAT(names, ::testing::ElementsAre("", "99999999999999999999", "a9b3", "a9b12", "node", "node1",
                                            "node02", "node2", "node2x", "node10"));
}

TEST(NaturalLess, IsAStrictWeakOrder) {
  const std::vector<std::string> names = {"",    "0",  "00",   "1",   "01",   "a",  "a0",
                                          "a00", "a1", "a01b", "a1b", "a1b2", "a10"};
  for (const auto& a : names) {
    EXPECT_FALSE(NaturalLess(a, a)) << a;
    for (const auto& b : names) {
      if (a == b) continue;
      EXPECT_NE(NaturalLess(a, b), NaturalLess(b, a)) << a << " " << b;
      for (const auto& c : names) {
        const bool chained = NaturalLess(a, b) && NaturalLess(b, c);
        EXPECT_TRUE(!chained || NaturalLess(a, c)) << a << " " << b << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
