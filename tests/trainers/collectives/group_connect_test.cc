// How the members of a group find each other, and what keeps them from it.
#include <sys/socket.h>

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

TEST(GroupConnectTest, AnAbortedBootstrapEndsConnecting) {
  // Once while a rank is missing altogether, once when it published its address and then froze.
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
      bootstrap.Wait({"collectives/1.a/rank/0"}).IgnoreError();  // rank 0 is on its way
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

TEST(GroupConnectTest, APeerThatDiedBeforeItWasReachedIsNamed) {
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

TEST(GroupConnectTest, StrangersAreDroppedWithoutDisturbing) {
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
  for (int i = 0; i < 300; ++i) {  // more than a listener keeps
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

}  // namespace
}  // namespace mtrun::collectives
