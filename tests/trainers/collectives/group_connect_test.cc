// Tests how the members of a group connect, and what prevents them from connecting.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/group.h"
#include "trainers/collectives/listener.h"

namespace mtrun::collectives {
namespace {

TEST(GroupConnectTest, AbortedBootstrapEndsConnecting) {
  // Covers a missing rank, and a rank that published its address and then froze.
  for (const bool published : {false, true}) {
    auto folder = MakeTemporaryFolder("mtrun-connect-");
    ASSERT_TRUE(folder.ok());
    FolderBootstrap bootstrap(*folder);
    if (published) {
      const PeerInfo frozen = {
          .pid = 1, .host = "far", .host_id = "x", .unix_name = "mtrun-none", .port = 1, .addresses = {}};
      ASSERT_TRUE(bootstrap.Set("collectives/1.a/rank/1", Encode(frozen)).ok());
    }
    std::thread aborter([&] {
      bootstrap.Wait({"collectives/1.a/rank/0"}).IgnoreError();  // rank 0 is connecting
      bootstrap.Abort("dissolved");
    });
    GroupMember membership;
    membership.world_size = 2;
    membership.generation = "1.a";
    membership.address = "127.0.0.1";
    const absl::Status status = Group::Connect(membership, &bootstrap).status();
    aborter.join();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(status.message(), "dissolved");
    std::filesystem::remove_all(*folder);
  }
}

TEST(GroupConnectTest, PeerThatDiedBeforeConnectingIsNamed) {
  auto folder = MakeTemporaryFolder("mtrun-connect-");
  ASSERT_TRUE(folder.ok());
  FolderBootstrap bootstrap(*folder);
  const PeerInfo dead = {.pid = 4242,
                         .host = "node9",
                         .host_id = LocalHostId(),
                         .unix_name = "mtrun-none",
                         .port = 1,
                         .addresses = {}};
  ASSERT_TRUE(bootstrap.Set("collectives/1.a/rank/0", Encode(dead)).ok());
  ASSERT_TRUE(bootstrap.Set("collectives/1.a/key/0", "key").ok());
  GroupMember membership;
  membership.rank = 1;
  membership.world_size = 2;
  membership.generation = "1.a";
  membership.address = "127.0.0.1";
  const absl::Status status = Group::Connect(membership, &bootstrap).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot reach rank 0 (pid 4242 on node9)")) << status;
  std::filesystem::remove_all(*folder);
}

TEST(GroupConnectTest, UnauthenticatedConnectionsAreDropped) {
  Ranks ranks(2, [](const RankContext& context) {
    FolderBootstrap bootstrap(context.folder);
    if (context.rank == 1) {
      ASSERT_TRUE(bootstrap.Wait({"strangers are there"}).ok());
    }
    auto group = context.Connect("1.a", {0, 1});
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_TRUE(ReduceOnes(**group).ok());
  });
  FolderBootstrap bootstrap(ranks.folder());
  auto values = bootstrap.Wait({"collectives/1.a/rank/0"});
  ASSERT_TRUE(values.ok());
  const auto info = DecodePeerInfo(values->begin()->second);
  ASSERT_TRUE(info.ok());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) {  // more than a listener keeps pending
    auto sockets = DialTcp({"127.0.0.1"}, info->port);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    const std::string text = i % 3 == 0   ? ""
                             : i % 3 == 1 ? "GET / HTTP/1.1\r\nHost: here.example.org\r\n\r\n"
                                          : "mtrcoll1";
    if (!text.empty()) send((*sockets)[0].get(), text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move((*sockets)[0]));
  }
  auto local = DialUnix(info->unix_name);
  ASSERT_TRUE(local.ok()) << local.status();
  ASSERT_TRUE(bootstrap.Set("strangers are there", "1").ok());
  ranks.ExpectAllWell();
}

/// Other processes of this machine can fill the queue.
TEST(GroupConnectTest, ConnectWaitsForANeighboursFullQueue) {
  Ranks ranks(1, [](const RankContext& context) { ConnectAs(context.folder, 2, 3, "1.a").IgnoreError(); });
  FolderBootstrap bootstrap(ranks.folder());
  const auto info = [](int rank) {
    return PeerInfo{.pid = getpid(),
                    .host = "here",
                    .host_id = "host0",
                    .unix_name = absl::StrCat("mtrun-test-", getpid(), "-", rank),
                    .port = 1,
                    .addresses = {}};
  };
  auto full = ListenUnix(info(0).unix_name), free = ListenUnix(info(1).unix_name);
  ASSERT_TRUE(full.ok() && free.ok());
  ASSERT_EQ(listen(full->get(), 0), 0);
  std::vector<UniqueFd> crowd;
  for (auto one = DialUnix(info(0).unix_name); one.ok(); one = DialUnix(info(0).unix_name))
    crowd.push_back(*std::move(one));
  ASSERT_FALSE(crowd.empty());
  ASSERT_TRUE(bootstrap.Set("collectives/1.a/key/0", "key").ok());
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(bootstrap.Set(absl::StrCat("collectives/1.a/rank/", rank), Encode(info(rank))).ok());
  const auto await = [](int fd) {
    pollfd readable = {fd, POLLIN, 0};
    return poll(&readable, 1, 20'000) == 1;
  };
  ASSERT_TRUE(await(free->get())) << "it has tried rank 0 before";
  for (size_t i = 0; i < crowd.size(); ++i) EXPECT_TRUE(AcceptOne(full->get()).valid());
  ASSERT_TRUE(await(full->get()));
  const UniqueFd rank = AcceptOne(full->get());
  ASSERT_TRUE(await(rank.get()));
  char greeting[8] = {};
  EXPECT_EQ(recv(rank.get(), greeting, sizeof greeting, 0), 8);
  EXPECT_EQ(std::string(greeting, 8), "mtrcoll1");
}

/// Connects rank `context.rank`, on a host of its own.
absl::StatusOr<std::unique_ptr<Group>> ConnectWith(const RankContext& context, const Wire& wire) {
  FolderBootstrap bootstrap(context.folder);
  GroupOptions options;
  options.mesh.host_id = absl::StrCat("host", context.rank);
  GroupMember membership;
  membership.rank = context.rank;
  membership.world_size = context.world;
  membership.generation = "1.a";
  membership.address = "127.0.0.1";
  membership.wire = wire;
  return Group::Connect(membership, &bootstrap, options);
}

TEST(GroupConnectTest, EncryptingHostsGetTheSameSums) {
  Ranks ranks(3, [](const RankContext& context) {
    auto group = ConnectWith(context, {.protection = Protection::kEncrypt, .ports = {}});
    ASSERT_TRUE(group.ok()) << group.status();
    std::vector<float> data(1'000'003, static_cast<float>(context.rank + 1));
    for (int round = 0; round < 3; ++round) {
      data[77] = static_cast<float>(context.rank);
      ASSERT_TRUE(
          (*group)->AllReduce(data.data(), data.size(), DataType::kFloat32, ReduceOp::kAverage)->Wait().ok());
      EXPECT_EQ(data[77], 1.0F);
      EXPECT_EQ(data.back(), 2.0F);
    }
  });
  ranks.ExpectAllWell();
}

TEST(GroupConnectTest, MixOfEncryptionSettingsIsRefusedByName) {
  Ranks ranks(2, [](const RankContext& context) {
    const Protection protection = context.rank == 0 ? Protection::kTag : Protection::kEncrypt;
    const absl::Status status = ConnectWith(context, {.protection = protection, .ports = {}}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "--encrypt_gradients")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), context.rank == 0 ? "rank 1 (pid" : "rank 0 (pid"))
        << status;
  });
  ranks.ExpectAllWell();
}

TEST(GroupConnectTest, MembersListenWithinTheirPortRange) {
  Ranks ranks(2, [](const RankContext& context) {
    const PortRange ports{23'000, 23'999};
    auto group = ConnectWith(context, {.protection = Protection::kTag, .ports = ports});
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_TRUE(ReduceOnes(**group).ok());
    FolderBootstrap bootstrap(context.folder);
    const auto values = bootstrap.Wait({"collectives/1.a/rank/0"});
    ASSERT_TRUE(values.ok());
    const auto info = DecodePeerInfo(values->begin()->second);
    ASSERT_TRUE(info.ok());
    EXPECT_TRUE(info->port >= ports.low && info->port <= ports.high) << info->port;
  });
  ranks.ExpectAllWell();
}

}  // namespace
}  // namespace mtrun::collectives
