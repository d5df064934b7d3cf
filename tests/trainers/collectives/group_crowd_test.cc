// Tests which connections are kept when very many processes connect to one rank. The test plays the other
// ranks, connection by connection; rank 0 is real.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/link.h"
#include "trainers/collectives/listener.h"

namespace mtrun::collectives {
namespace {

constexpr int kCrowd = 300;  // more silent connections than a listener keeps
constexpr std::chrono::seconds kPatience{20};
constexpr int kPatienceMs = 20'000;

/// Reads until there are `count` bytes, or returns true if the other end closes first.
bool ReadUntil(int fd, size_t count, std::string* bytes) {
  while (bytes->size() < count) {
    char buffer[64];
    pollfd event = {fd, POLLIN, 0};
    if (poll(&event, 1, kPatienceMs) != 1) return false;
    const ssize_t more = recv(fd, buffer, std::min(sizeof(buffer), count - bytes->size()), 0);
    if (more <= 0) return true;
    bytes->append(buffer, static_cast<size_t>(more));
  }
  return false;
}

/// Returns the first message of a dialer that does not have the key. The link writes it to a socket that
/// nothing answers: over a connection to rank 0 it could already read and refuse rank 0's challenge.
std::string HelloWithoutKey(int rank, Purpose purpose) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return "";
  const UniqueFd far(ends[1]);
  Link link = Link::Dialed(UniqueFd(ends[0]), {.key = NewKey(), .generation = "1.a"}, rank, 0, purpose);
  if (!link.Advance(-1).ok()) return "";
  char hello[256];
  const ssize_t size = recv(far.get(), hello, sizeof(hello), 0);
  return {hello, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

/// A real rank 0, alone on its host. Until Begin() it accepts nothing: connections queue in order.
class UnauthenticatedConnections {
 public:
  explicit UnauthenticatedConnections(int world)
      : world_(world),
        ranks_(1,
               [world](const RankContext& context) {
                 std::vector<int> hosts(static_cast<size_t>(world), 1);
                 hosts[0] = 0;
                 ConnectAs(context.folder, 0, world, "1.a", hosts).IgnoreError();
               }),
        bootstrap_(ranks_.folder()) {
    const auto values = bootstrap_.Wait({"collectives/1.a/rank/0", "collectives/1.a/key/0"});
    if (!values.ok()) return;
    const auto info = DecodePeerInfo(values->at("collectives/1.a/rank/0"));
    port_ = info->port;
    unix_name_ = info->unix_name;
    secret_ = {.key = values->at("collectives/1.a/key/0"), .generation = "1.a"};
  }

  /// Opens the two connections of `rank`, which send nothing yet.
  void Dial(int rank) {
    for (const Purpose purpose : {Purpose::kControl, Purpose::kData}) {
      auto sockets = DialTcp({"127.0.0.1"}, port_);
      ASSERT_TRUE(sockets.ok()) << sockets.status();
      links_.push_back(Link::Dialed(std::move((*sockets)[0]), secret_, rank, 0, purpose));
    }
  }
  /// Makes all of these connections send their greetings.
  void Greet() {
    for (Link& link : links_) EXPECT_TRUE(link.Advance(-1).ok());
  }
  /// Opens kCrowd connections without the key, which claim to be rank `claimed`, or send nothing if it is 0.
  void Strangers(const char* from, int claimed = 0) {
    static const Link::Secret kWrong = {.key = NewKey(), .generation = "1.a"};
    for (int i = 0; i < kCrowd; ++i) {
      UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      inet_pton(AF_INET, from, &address.sin_addr);
      ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
      inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
      address.sin_port = htons(static_cast<uint16_t>(port_));
      ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
      if (claimed > 0) {
        claims_.push_back(Link::Dialed(UniqueFd(dup(fd.get())), kWrong, claimed, 0, Purpose::kData));
        ASSERT_TRUE(claims_.back().Advance(-1).ok());
      }
      strangers_.push_back(std::move(fd));
    }
  }
  /// Claims to be `rank` and answers rank 0's challenge without the key. Returns the bytes that rank 0 sends
  /// then, before it closes the connection.
  std::string ProveWrongly(int rank, Purpose purpose) const {
    constexpr size_t kChallengeBytes = 48, kProofBytes = 32;
    absl::StatusOr<UniqueFd> fd = DialOnce(/*local=*/false);
    if (!fd.ok()) return std::string(fd.status().message());
    std::string challenge, answer;
    if (!WriteAll(fd->get(), HelloWithoutKey(rank, purpose)).ok()) return "the Hello was not sent";
    if (ReadUntil(fd->get(), kChallengeBytes, &challenge)) return "closed after the Hello";
    if (!WriteAll(fd->get(), std::string(kProofBytes, 'x')).ok()) return "not sent";
    return ReadUntil(fd->get(), 1, &answer) ? answer : "welcome: " + answer;
  }
  /// Greets rank 0 with the key, as `rank`; `local`: at its Unix socket. Returns false if rank 0 refuses.
  bool WelcomesMember(int rank, Purpose purpose, bool local) const {
    absl::StatusOr<UniqueFd> fd = DialOnce(local);
    if (!fd.ok()) return false;
    Link link = Link::Dialed(*std::move(fd), secret_, rank, 0, purpose);
    link.set_local(local);
    const UniqueFd segment(memfd_create("segment", MFD_CLOEXEC));
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (link.state() != Link::State::kDone && std::chrono::steady_clock::now() < end) {
      absl::Status status = link.Advance(-1);
      if (status.ok() && link.state() == Link::State::kVerified)
        status = link.Confirm(local ? segment.get() : -1);
      if (!status.ok()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;  // or it has not answered at all
  }
  void Begin() {
    for (int rank = 1; rank < world_; ++rank) {
      const PeerInfo info = {
          .pid = 1, .host = "far", .host_id = "host1", .unix_name = "mtrun-none", .port = 1, .addresses = {}};
      ASSERT_TRUE(bootstrap_.Set(absl::StrCat("collectives/1.a/rank/", rank), Encode(info)).ok());
    }
  }
  /// Name of rank 0's Unix socket, to which its neighbours on this host connect.
  const std::string& unix_name() const { return unix_name_; }
  /// Returns whether rank 0 closes some of the unauthenticated connections within kPatience.
  bool SomeStrangersAreGone() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      for (const UniqueFd& fd : strangers_) {
        pollfd event = {fd.get(), POLLRDHUP, 0};
        if (poll(&event, 1, 0) == 1) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  /// Waits until rank 0 has `count` connections that it has not accepted; returns false after kPatience.
  bool AwaitWaiting(int count) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (Waiting() != count) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// Expects that every connection of Dial() and rank 0 authenticate each other.
  void ExpectAllAreWelcome() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const auto done = [](const Link& link) { return link.state() == Link::State::kDone; };
    while (!std::all_of(links_.begin(), links_.end(), done)) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      for (Link& link : links_) {
        absl::Status status = done(link) ? absl::OkStatus() : link.Advance(-1);
        if (status.ok() && link.state() == Link::State::kVerified) status = link.Confirm(-1);
        ASSERT_TRUE(status.ok()) << status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  absl::StatusOr<UniqueFd> DialOnce(bool local) const {
    if (local) return DialUnix(unix_name_);
    auto sockets = DialTcp({"127.0.0.1"}, port_);
    if (!sockets.ok()) return sockets.status();
    return std::move((*sockets)[0]);
  }
  /// Returns the number of pending connections, which is the rx_queue of a listener in the kernel's table; -1
  /// if rank 0's listener is not listed.
  int Waiting() const {
    for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::ifstream table(path);
      for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string slot, local, remote, state, queues;  // "00000000:00000005"
        words >> slot >> local >> remote >> state >> queues;
        if (state == "0A" && local.ends_with(absl::StrFormat(":%04X", port_)))
          return std::stoi(queues.substr(queues.find(':') + 1), nullptr, 16);
      }
    }
    return -1;
  }

  const int world_;
  Ranks ranks_;
  FolderBootstrap bootstrap_;
  int port_ = 0;
  std::string unix_name_;
  Link::Secret secret_;
  std::deque<Link> links_;
  std::vector<UniqueFd> strangers_;
  std::deque<Link> claims_;
};

TEST(GroupCrowdTest, SilentPeerSurvivesAFloodFromAnotherAddress) {
  UnauthenticatedConnections crowd(2);
  crowd.Dial(1);
  crowd.Strangers("127.0.0.2");
  crowd.Begin();
  ASSERT_TRUE(crowd.SomeStrangersAreGone());
  crowd.ExpectAllAreWelcome();
}

TEST(GroupCrowdTest, GreetedPeerSurvivesAFloodFromItsOwnAddress) {
  UnauthenticatedConnections crowd(2);
  crowd.Dial(1);
  crowd.Greet();
  crowd.Strangers("127.0.0.1");
  crowd.Begin();
  ASSERT_TRUE(crowd.SomeStrangersAreGone());
  crowd.ExpectAllAreWelcome();
}

TEST(GroupCrowdTest, UnprovenClaimOfARankCountsAsUnauthenticated) {
  UnauthenticatedConnections crowd(2);
  crowd.Dial(1);
  crowd.Greet();
  crowd.Strangers("127.0.0.2", /*claimed=*/1);
  crowd.Begin();
  ASSERT_TRUE(crowd.SomeStrangersAreGone());
  crowd.ExpectAllAreWelcome();
}

TEST(GroupCrowdTest, FalseClaimsDoNotPushOutASilentPeer) {
  UnauthenticatedConnections crowd(2);
  crowd.Dial(1);
  crowd.Strangers("127.0.0.1", /*claimed=*/1);
  crowd.Begin();
  ASSERT_TRUE(crowd.SomeStrangersAreGone());
  crowd.ExpectAllAreWelcome();
}

/// The claimed rank connects later: its place must still be free.
TEST(GroupCrowdTest, WrongProofOverTcpGetsNoWelcome) {
  UnauthenticatedConnections crowd(2);
  crowd.Begin();
  for (const Purpose purpose : {Purpose::kControl, Purpose::kData})
    EXPECT_EQ(crowd.ProveWrongly(1, purpose), "");
  crowd.Dial(1);
  crowd.ExpectAllAreWelcome();
}

/// All of these have the key: only their place in the mesh is wrong. Rank 1 is on another host.
TEST(GroupCrowdTest, UnexpectedConnectionsOfMembersAreDropped) {
  UnauthenticatedConnections crowd(2);
  crowd.Begin();
  EXPECT_FALSE(crowd.WelcomesMember(0, Purpose::kControl, /*local=*/false)) << "its own rank";
  EXPECT_FALSE(crowd.WelcomesMember(2, Purpose::kControl, /*local=*/false)) << "a rank beyond the last one";
  EXPECT_FALSE(crowd.WelcomesMember(1, Purpose::kControl, /*local=*/true)) << "at the socket of its own host";
  EXPECT_FALSE(crowd.WelcomesMember(1, static_cast<Purpose>(2), /*local=*/false)) << "for an unknown purpose";
  crowd.Dial(1);
  crowd.ExpectAllAreWelcome();
}

TEST(GroupCrowdTest, UnixSocketRefusesOtherUsers) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  UnauthenticatedConnections crowd(2);
  crowd.Begin();
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setuid(65534) != 0) _exit(2);
    const auto dialed = DialUnix(crowd.unix_name());
    if (!dialed.ok()) _exit(3);
    pollfd closed = {dialed->get(), POLLIN, 0};
    _exit(poll(&closed, 1, std::chrono::milliseconds(kPatience).count()) == 1 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
}

/// A rank dials all others before it greets the first, and resolving their names can take long.
TEST(GroupCrowdTest, ManySilentPeersAllStayConnected) {
  constexpr int kWorld = 141;  // two connections each
  UnauthenticatedConnections crowd(kWorld);
  for (int rank = 1; rank < kWorld; ++rank) crowd.Dial(rank);
  ASSERT_TRUE(crowd.AwaitWaiting(2 * (kWorld - 1)));
  crowd.Begin();
  ASSERT_TRUE(crowd.AwaitWaiting(0)) << "rank 0 has all of them, silent";
  crowd.ExpectAllAreWelcome();
}

}  // namespace
}  // namespace mtrun::collectives
