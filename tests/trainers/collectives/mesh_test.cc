// Rank 1 connects to a rank 0 that the test plays.
#include "trainers/collectives/mesh.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "rendezvous/job/break_backoff.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/link.h"
#include "trainers/collectives/listener.h"

namespace mtrun::collectives {
namespace {

constexpr int kMeshPatience = 60'000;
constexpr size_t kHelloBytes = 33, kProofBytes = 32;

bool AwaitBytes(int fd) {
  pollfd readable = {fd, POLLIN, 0};
  return poll(&readable, 1, kMeshPatience) == 1;
}

/// A rank 0 on another host, at two addresses.
class TwoAddresses {
 public:
  explicit TwoAddresses(Bootstrap& bootstrap) {
    PeerInfo info = {.pid = 77,
                     .host = "far",
                     .host_id = "far",
                     .unix_name = "mtrun-none",
                     .port = 0,
                     .addresses = {"127.0.0.1", "127.0.0.1"}};
    auto listener = ListenTcp("127.0.0.1", {}, &info.port);
    MT_CHECK(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    MT_CHECK(bootstrap.Set("collectives/1.a/key/0", secret_.key).ok());
    MT_CHECK(bootstrap.Set("collectives/1.a/rank/0", Encode(info)).ok());
  }

  /// Accepts all connections and sorts them by purpose.
  void Accept() {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(AwaitBytes(listener_.get()));
      UniqueFd fd = AcceptOne(listener_.get());
      ASSERT_TRUE(fd.valid() && AwaitBytes(fd.get()));
      char hello[kHelloBytes];
      ASSERT_EQ(recv(fd.get(), hello, sizeof hello, MSG_PEEK), static_cast<ssize_t>(kHelloBytes));
      dialed_[static_cast<Purpose>(hello[16])].push_back(std::move(fd));
    }
  }
  /// Closes the first of these connections after rank 1's proof, and answers on the other one.
  void Serve(Purpose purpose) {
    ASSERT_EQ(dialed_[purpose].size(), 2u);
    Break(dialed_[purpose][0].get());
    if (::testing::Test::HasFatalFailure()) return;
    Link& lasts = links_.emplace_back(Link::Accepted(std::move(dialed_[purpose][1]), secret_, 0, false));
    while (lasts.state() != Link::State::kDone) {
      ASSERT_TRUE(AwaitBytes(lasts.fd()));
      const absl::Status status = lasts.Advance(-1);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

 private:
  /// Done manually, because a Link would answer a proof that arrives immediately.
  void Break(int fd) {
    char hello[kHelloBytes], proof[kProofBytes];
    ASSERT_EQ(recv(fd, hello, sizeof hello, 0), static_cast<ssize_t>(kHelloBytes));
    const std::string nonce(16, 'n');
    const std::string transcript = "accept\n" + secret_.generation + "\n" + std::string(hello, kHelloBytes);
    ASSERT_TRUE(WriteAll(fd, nonce + HmacSha256(secret_.key, transcript + nonce)).ok());
    ASSERT_TRUE(AwaitBytes(fd));
    ASSERT_EQ(recv(fd, proof, sizeof proof, 0), static_cast<ssize_t>(kProofBytes));
    shutdown(fd, SHUT_WR);
    ASSERT_TRUE(AwaitBytes(fd));
    ASSERT_EQ(recv(fd, proof, sizeof proof, 0), 0) << "rank 1 has given it up";
  }

  const Link::Secret secret_ = {.key = "key", .generation = "1.a"};
  UniqueFd listener_;
  std::map<Purpose, std::vector<UniqueFd>> dialed_;
  std::list<Link> links_;
};

TEST(MeshTest, AnotherAddressReplacesOneThatBreaksAfterTheProof) {
  auto folder = MakeTemporaryFolder("mtrun-mesh-");
  ASSERT_TRUE(folder.ok()) << folder.status();
  FolderBootstrap bootstrap(*folder);
  TwoAddresses rank_0(bootstrap);
  absl::Status connected;
  std::thread rank_1([&] {
    const GroupMember membership = {.rank = 1, .world_size = 2, .generation = "1.a", .address = "127.0.0.1"};
    connected = ConnectMesh(membership, bootstrap, -1, {.host_id = "near"}).status();
  });
  rank_0.Accept();
  for (const Purpose purpose : {Purpose::kControl, Purpose::kData}) {
    if (!HasFatalFailure()) rank_0.Serve(purpose);
  }
  if (HasFatalFailure()) bootstrap.Abort("it did not try the other address");
  rank_1.join();
  EXPECT_TRUE(connected.ok()) << connected;
  std::filesystem::remove_all(*folder);
}

/// A listener with a full queue: its host drops incoming packets, as a firewall does.
class FullListener {
 public:
  FullListener() {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    MT_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
    MT_CHECK(listen(listener_.get(), 0) == 0);
    MT_CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port_ = ntohs(at.sin_port);
    for (int i = 0; i < 4; ++i) {
      UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      connect(fd.get(), reinterpret_cast<sockaddr*>(&at), size);
      waiting_.push_back(std::move(fd));
    }
  }
  int port() const { return port_; }

 private:
  UniqueFd listener_;
  int port_ = 0;
  std::vector<UniqueFd> waiting_;
};

TEST(MeshTest, ReportsAHostThatDropsConnectionsAndKeepsTrying) {
  auto folder = MakeTemporaryFolder("mtrun-mesh-");
  ASSERT_TRUE(folder.ok()) << folder.status();
  FolderBootstrap bootstrap(*folder);
  const FullListener full;
  const PeerInfo info = {.pid = 77,
                         .host = "far",
                         .host_id = "far",
                         .unix_name = "mtrun-none",
                         .port = full.port(),
                         .addresses = {"127.0.0.1"}};
  ASSERT_TRUE(bootstrap.Set("collectives/1.a/key/0", "key").ok());
  ASSERT_TRUE(bootstrap.Set("collectives/1.a/rank/0", Encode(info)).ok());
  std::vector<int> told;
  GroupMember membership = {.rank = 1, .world_size = 2, .generation = "1.a", .address = "127.0.0.1"};
  membership.unreached = [&](int rank) { told.push_back(rank); };
  MeshOptions options;
  options.host_id = "near";
  options.timeout = std::chrono::seconds(2);
  options.notice = std::chrono::milliseconds(300);
  const absl::Status connected = ConnectMesh(membership, bootstrap, -1, options).status();
  EXPECT_TRUE(absl::IsUnavailable(connected)) << connected;
  EXPECT_EQ(told, std::vector<int>{0}) << "once";
  std::filesystem::remove_all(*folder);
}

/// Ranks that cannot connect give up and report it before the connected ones count as having run long.
TEST(MeshTest, TimeoutIsShorterThanALongRun) {
  EXPECT_GT(rendezvous::BreakBackoff::kLongRun, MeshOptions().timeout + std::chrono::seconds(30));
}

}  // namespace
}  // namespace mtrun::collectives
