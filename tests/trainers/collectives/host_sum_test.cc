// Performs the plans of all ranks on texts, so that the order of the additions is visible: for all layouts of a
// few ranks over hosts, and random ones of many.
#include "trainers/collectives/host_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/trainers/collectives/leaf_shares.h"

namespace mtrun::collectives {
namespace {

constexpr size_t kElementBytes = 4;

HostMap MapOf(const std::vector<int>& hosts) {
  std::vector<std::string> ids;
  for (const int host : hosts) ids.push_back(absl::StrCat("host", host));
  return MapHosts(ids);
}

/// Calls `use` for each way to put `world` ranks on hosts.
void ForEachLayout(int world, const std::function<void(const std::vector<int>&)>& use,
                   std::vector<int> hosts = {}) {
  if (static_cast<int>(hosts.size()) == world) return use(hosts);
  const int next = hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end()) + 1;
  for (int host = 0; host <= next; ++host) {
    std::vector<int> longer = hosts;
    longer.push_back(host);
    ForEachLayout(world, use, longer);
  }
}

/// The text of the sum of leaves [begin, end), by its definition.
std::string TreeText(int64_t begin, int64_t end, int64_t filled) {
  if (begin >= filled) return "";
  if (end - begin == 1) return absl::StrCat(begin);
  const int64_t half = (end - begin + 1) / 2;
  const std::string first = TreeText(begin, begin + half, filled),
                    second = TreeText(begin + half, end, filled);
  return second.empty() ? first : absl::StrCat("(", first, "+", second, ")");
}

/// Returns the number of the largest nodes of which a host has all leaves that exist, by their definition.
size_t NodesWithin(int64_t begin, int64_t end, int64_t filled, const std::function<bool(int64_t)>& has) {
  const int64_t last = std::min(end, filled);
  bool all = begin < last;
  for (int64_t leaf = begin; leaf < last; ++leaf) all = all && has(leaf);
  if (all) return 1;
  if (begin >= last || end - begin == 1) return 0;
  const int64_t half = begin + (end - begin + 1) / 2;
  return NodesWithin(begin, half, filled, has) + NodesWithin(half, end, filled, has);
}

std::string PerformPlan(const TreePlan& plan, const std::vector<std::string>& inputs) {
  if (plan.additions.empty()) return inputs.at(0);
  std::vector<std::string> stack;
  const auto take = [&](int from) {
    if (from != TreePlan::kStack) return inputs.at(static_cast<size_t>(from));
    const std::string top = stack.back();
    stack.pop_back();
    return top;
  };
  for (const TreePlan::Addition& addition : plan.additions) {
    const std::string right = take(addition.right), left = take(addition.left);
    stack.push_back(absl::StrCat("(", left, "+", right, ")"));
    EXPECT_LE(stack.size(), static_cast<size_t>(plan.depth));
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.at(0);
}

/// The texts of all inputs of a plan.
std::vector<std::string> InputTexts(const std::vector<LeafRange>& ranges, const TreePlan& plan) {
  std::vector<std::string> texts;
  for (const LeafRange& range : ranges) {
    for (const LeafRange& node : PartialSums(range, plan.leaves, plan.filled)) {
      // A partial sum is a node, but without leaves that do not exist: find the node that begins and ends so.
      int64_t begin = 0, end = plan.leaves;
      while (begin != node.begin || std::min(end, plan.filled) != node.end) {
        const int64_t half = begin + (end - begin + 1) / 2;
        (node.begin < half ? end : begin) = half;
      }
      texts.push_back(TreeText(begin, end, plan.filled));
    }
  }
  return texts;
}

void CheckOrder(const std::vector<LeafRange>& ranges, int64_t leaves, int64_t filled, const HostMap& map) {
  const TreePlan plan = PlanTree(ranges, leaves, filled);
  const HostSum sum = PlanHosts(plan, map, /*adds=*/true);
  const std::vector<std::string> inputs = InputTexts(ranges, plan);
  std::vector<std::string> terms(static_cast<size_t>(sum.inputs()));
  for (int host = 0; host < map.hosts(); ++host) {
    const std::vector<HostPartial>& partials = sum.hosts[static_cast<size_t>(host)];
    for (const HostPartial& partial : partials) {
      std::vector<std::string> own;
      for (const int input : partial.inputs) own.push_back(inputs.at(static_cast<size_t>(input)));
      ASSERT_EQ(partial.plan.inputs(), static_cast<int>(own.size()));
      terms.at(static_cast<size_t>(partial.number)) = PerformPlan(partial.plan, own);
    }
    const size_t fewest = NodesWithin(0, leaves, filled, [&](int64_t leaf) {
      for (size_t rank = 0; rank < ranges.size(); ++rank) {
        if (map.host_of[rank] == host && ranges[rank].begin <= leaf && leaf < ranges[rank].end) return true;
      }
      return false;
    });
    ASSERT_EQ(partials.size(), fewest) << "host " << host;
  }
  ASSERT_EQ(PerformPlan(sum.last, terms), TreeText(0, leaves, filled)) << plan.Describe();
}

TEST(HostSumTest, OrderIsTheTreesAndPartialSumsAreTheFewestForAllLayouts) {
  for (int world = 1; world <= 5; ++world) {
    ForEachLayout(world, [&](const std::vector<int>& hosts) {
      const HostMap map = MapOf(hosts);
      for (int64_t leaves = 1; leaves <= 12; ++leaves) {
        for (int64_t filled = 1; filled <= leaves; ++filled) {
          ASSERT_NO_FATAL_FAILURE(CheckOrder(LeafShares(leaves, world), leaves, filled, map))
              << absl::StrJoin(hosts, ",") << ", " << filled << " of " << leaves;
        }
      }
    });
  }
}

TEST(HostSumTest, OrderIsTheTreesForRandomRangesAndLayouts) {
  std::mt19937_64 random(11);
  const auto below = [&random](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  for (int round = 0; round < 1000; ++round) {
    const int64_t leaves = 1 + below(150), filled = 1 + below(leaves);
    std::set<int64_t> cuts = {0, leaves};
    for (int64_t k = below(24); k > 0; --k) cuts.insert(below(leaves));
    std::vector<LeafRange> ranges;
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut)
      ranges.push_back({*cut, *std::next(cut)});
    if (below(2) == 0)
      ranges.insert(ranges.begin() + below(static_cast<int64_t>(ranges.size()) + 1), LeafRange{0, 0});
    std::vector<int> hosts;
    const int64_t of = 1 + below(6);
    for (size_t rank = 0; rank < ranges.size(); ++rank) hosts.push_back(static_cast<int>(below(of)));
    ASSERT_NO_FATAL_FAILURE(CheckOrder(ranges, leaves, filled, MapOf(hosts))) << "round " << round;
  }
}

TEST(HostSumTest, InputsStayApartIfHostsDoNotAdd) {
  const TreePlan plan = PlanTree(LeafShares(5, 5), 5, 5);
  const HostSum sum = PlanHosts(plan, MapOf({0, 0, 1, 0, 1}), /*adds=*/false);
  EXPECT_EQ(sum.inputs(), 5);
  for (const std::vector<HostPartial>& partials : sum.hosts) {
    for (const HostPartial& partial : partials)
      EXPECT_THAT(partial.inputs, testing::ElementsAre(partial.number));
  }
}

/// Sends the pieces of all ranks for one block, and checks that each host's partial sums meet all owners, that
/// each sum comes to all hosts, and that no element crosses the network twice.
void CheckBlock(const HostMap& map, size_t count) {
  const auto world = static_cast<int>(map.host_of.size());
  std::vector<BlockShare> shares;
  for (int rank = 0; rank < world; ++rank) shares.push_back(ShareOf(map, rank, count, kElementBytes));
  std::vector<int> owned(count, -1);
  for (int rank = 0; rank < world; ++rank) {
    const Chunk& chunk = shares[static_cast<size_t>(rank)].owned;
    for (size_t i = chunk.begin; i < chunk.end; ++i) {
      ASSERT_EQ(std::exchange(owned[i], rank), -1) << "element " << i << " has two owners";
    }
  }
  std::vector<std::vector<bool>> carried(map.ranks_of.size(), std::vector<bool>(count));  // by host, element
  size_t met = 0, all_met = 0;
  for (int rank = 0; rank < world; ++rank) {
    const int host = map.host_of[static_cast<size_t>(rank)];
    for (const Piece& piece : shares[static_cast<size_t>(rank)].carried) {
      ASSERT_LT(piece.chunk.begin, piece.chunk.end);
      ASSERT_NE(map.host_of[static_cast<size_t>(piece.peer)], host);
      for (size_t i = piece.chunk.begin; i < piece.chunk.end; ++i) {
        ASSERT_TRUE(owned[i] == piece.peer && !carried[static_cast<size_t>(host)][i]) << "element " << i;
        carried[static_cast<size_t>(host)][i] = true;
      }
      const std::vector<Piece>& theirs = shares[static_cast<size_t>(piece.peer)].met;
      ASSERT_EQ(std::count(theirs.begin(), theirs.end(), Piece{rank, piece.chunk}), 1);
      ++met;
    }
  }
  for (const BlockShare& share : shares) all_met += share.met.size();
  ASSERT_EQ(all_met, met);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_NE(owned[i], -1) << "element " << i << " has no owner";
    const int host = map.host_of[static_cast<size_t>(owned[i])];
    for (int other = 0; other < map.hosts(); ++other)
      ASSERT_EQ(carried[static_cast<size_t>(other)][i], other != host)
          << "host " << other << ", element " << i;
  }
}

TEST(HostSumTest, EachElementCrossesTheNetworkOnceForAllLayouts) {
  for (int world = 2; world <= 6; ++world) {
    ForEachLayout(world, [&](const std::vector<int>& hosts) {
      for (const size_t count : {1, 16, 17, 100, 333})
        ASSERT_NO_FATAL_FAILURE(CheckBlock(MapOf(hosts), count))
            << absl::StrJoin(hosts, ",") << ", " << count;
    });
  }
}

TEST(HostSumTest, EachElementCrossesTheNetworkOnceForRandomLayouts) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 60; ++round) {
    std::vector<int> hosts(2 + random() % 30);
    const size_t of = 1 + random() % 8;
    for (int& host : hosts) host = static_cast<int>(random() % of);
    ASSERT_NO_FATAL_FAILURE(CheckBlock(MapOf(hosts), random() % 2000)) << "round " << round;
  }
}

/// Bytes of a host are 2 S (n - 1) / n, and each of its ranks sends as much as the others.
TEST(HostSumTest, RanksOfAHostSendEquallyMuch) {
  constexpr size_t kCount = 1 << 20;
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, {0, 0, 1}, {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 1, 1, 1, 1, 1}}) {
    const HostMap map = MapOf(hosts);
    std::map<int, size_t> of_host;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      size_t sent = 0;
      const BlockShare share = ShareOf(map, static_cast<int>(rank), kCount, kElementBytes);
      for (const std::vector<Piece>* pieces : {&share.carried, &share.met}) {
        for (const Piece& piece : *pieces) sent += piece.chunk.size();
      }
      of_host[map.host_of[rank]] += sent;
      const double even = 2.0 * kCount * (map.hosts() - 1) / map.hosts() /
                          static_cast<double>(map.with(static_cast<int>(rank)).size());
      EXPECT_NEAR(static_cast<double>(sent) / even, 1.0, 0.001) << absl::StrJoin(hosts, ",");
    }
    for (const auto& [host, sent] : of_host)
      EXPECT_NEAR(static_cast<double>(sent), 2.0 * kCount * (map.hosts() - 1) / map.hosts(), 100.0);
  }
}

/// Where the hosts divide the step by halves, each sends one partial sum.
TEST(HostSumTest, HostsThatHalveTheStepSendOneSum) {
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 1, 1, 1}}) {
    const auto world = static_cast<int>(hosts.size());
    for (const int64_t leaves : {6, 12, 24, 48}) {
      if (leaves % world != 0) continue;
      const HostSum sum = PlanHosts(PlanTree(LeafShares(leaves, world), leaves, leaves), MapOf(hosts), true);
      EXPECT_EQ(sum.inputs(), MapOf(hosts).hosts()) << absl::StrJoin(hosts, ",") << " " << leaves;
    }
  }
}

}  // namespace
}  // namespace mtrun::collectives
