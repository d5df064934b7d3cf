#include "launcher/store/tcp_store_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/file_limit.h"
#include "gtest/gtest.h"
#include "launcher/net/held_port.h"
#include "tests/support/store_client.h"

namespace mtrun::launcher {
namespace {

using enum StoreCommand;

const StoreRequest kHello = {.command = kValidate, .number = StoreParser::kMagic};

class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void Say(const std::string& bytes) { EXPECT_TRUE(WriteAll(socket_.get(), bytes).ok()); }
  /// Sends `bytes`; the server can disconnect before it is done.
  void TryToSay(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  /// Returns whether the server has closed the connection.
  bool IsOver() {
    char byte = 0;
    const ssize_t got = recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  /// Reads `size` bytes, or fewer if the server disconnects.
  std::string Hear(size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = recv(socket_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }
  UniqueFd& socket() { return socket_; }

 private:
  UniqueFd socket_;
};

class TcpStoreServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto held = HeldPort::Open();
    ASSERT_TRUE(held.ok() && held->Listen().ok());
    port_ = held->port();
    auto server = TcpStoreServer::Start(held->Take(), kOptions);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  static constexpr TcpStoreServer::Options kOptions = {
      .this_machine_only = true, .most_clients = 4, .most_held = 64 << 20};

  int port_ = 0;
  std::unique_ptr<TcpStoreServer> server_;
};

TEST_F(TcpStoreServerTest, KeyFromOneClientEndsAnothersWait) {
  Connection first(port_), second(port_);
  first.Say(Encode(kHello) + Encode({kWait, {"k"}}));
  second.Say(Encode(kHello) + Encode({kPing, {}, {}, 7}));
  EXPECT_EQ(second.Hear(4), std::string("\7\0\0\0", 4));
  second.Say(Encode({kSet, {"k"}, {"v"}}));
  EXPECT_EQ(first.Hear(1), std::string(1, '\0'));
}

TEST_F(TcpStoreServerTest, InvalidClientsAreDisconnected) {
  Connection stranger(port_), client(port_);
  stranger.Say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(stranger.Hear(1), "");
  client.Say(Encode(kHello) + Encode({kWait, {"a"}}) + Encode({kWait, {"a"}}));
  EXPECT_EQ(client.Hear(1), "");
}

TEST_F(TcpStoreServerTest, ClientThatDoesNotReadIsNotReadFromButLosesNothing) {
  Connection client(port_);
  const std::string value(1 << 20, 'v');
  client.Say(Encode(kHello) + Encode({kSet, {"k"}, {value}}));
  std::string many;
  for (int i = 0; i < 100; ++i) many += Encode({kGet, {"k"}});
  client.Say(many);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.Hear(8 + value.size()).size(), 8 + value.size()) << i;
}

TEST_F(TcpStoreServerTest, EmptyAnswerLeavesTheOthersWhole) {
  Connection client(port_);
  std::string value(1 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 2654435761u >> 16);
  client.Say(Encode(kHello) + Encode({kSet, {"k"}, {value}}));
  client.Say(Encode({kMultiGet}) + Encode({kGet, {"k"}}) + Encode({kGet, {"k"}}));
  for (int i = 0; i < 2; ++i) {
    client.Hear(8);
    EXPECT_TRUE(client.Hear(value.size()) == value) << i;
  }
}

TEST_F(TcpStoreServerTest, ResetForgetsEverything) {
  Connection before(port_);
  before.Say(Encode(kHello) + Encode({kAdd, {"k"}, {}, 1}));
  EXPECT_EQ(before.Hear(8).size(), 8u);
  server_->StartOver(kOptions);
  EXPECT_EQ(before.Hear(1), "");
  Connection after(port_);
  after.Say(Encode(kHello) + Encode({kNumKeys}));
  EXPECT_EQ(after.Hear(8), std::string(8, '\0'));
}

TEST_F(TcpStoreServerTest, DestructionClosesEveryConnection) {
  Connection client(port_);
  client.Say(Encode(kHello) + Encode({kWait, {"a"}}) + Encode({kCheck, {"a"}}));
  EXPECT_EQ(client.Hear(1), "\1");
  server_.reset();
  EXPECT_EQ(client.Hear(1), "");
}

TEST_F(TcpStoreServerTest, ConnectionFromAnotherListenerIsAdopted) {
  auto other = HeldPort::Open();
  ASSERT_TRUE(other.ok() && other->Listen().ok());
  Connection client(other->port());
  const UniqueFd listener = other->Take();
  server_->Adopt(UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  client.Say(Encode(kHello) + Encode({kCheck, {"a"}}));
  EXPECT_EQ(client.Hear(1), "\1");
}

TEST_F(TcpStoreServerTest, QuietestClientIsDroppedFirst) {
  Connection waits(port_), speaks(port_);
  waits.Say(Encode(kHello) + Encode({kCheck, {"a"}}) + Encode({kWait, {"a"}}));
  EXPECT_EQ(waits.Hear(1), "\1");
  speaks.Say(Encode(kHello) + Encode({kCheck, {"a"}}));
  EXPECT_EQ(speaks.Hear(1), "\1");
  std::vector<Connection> strangers;
  for (int i = 0; i < 3; ++i) strangers.emplace_back(port_);
  EXPECT_TRUE(waits.IsOver()) << "five, where four are served";
  speaks.Say(Encode({kCheck, {"a"}}));
  EXPECT_EQ(speaks.Hear(1), "\1");
  strangers.emplace_back(port_);
  EXPECT_TRUE(strangers.front().IsOver()) << "it has said nothing since the other one did";
  speaks.Say(Encode({kCheck, {"a"}}));
  EXPECT_EQ(speaks.Hear(1), "\1");
}

TEST_F(TcpStoreServerTest, AdoptedClientCountsTowardsTheLimit) {
  auto other = HeldPort::Open();
  ASSERT_TRUE(other.ok() && other->Listen().ok());
  const int port = other->port();
  const UniqueFd listener = other->Take();
  std::vector<Connection> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(port);
    server_->Adopt(UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    clients.back().Say(Encode(kHello) + Encode({kCheck, {"a"}}));
    EXPECT_EQ(clients.back().Hear(1), "\1");
  }
  EXPECT_TRUE(clients.front().IsOver());
}

/// Uses requests that are never completed.
TEST_F(TcpStoreServerTest, LargestClientIsDroppedIfTheMemoryBoundIsExceeded) {
  const std::string begun =
      Encode({kMultiSet, {"a", "b", "c", "d", "e"}, std::vector<std::string>(5, std::string(8 << 20, 'v'))});
  Connection small(port_), big(port_);
  small.Say(Encode(kHello) + begun.substr(0, 30 << 20));
  big.TryToSay(Encode(kHello) + begun.substr(0, begun.size() - 1));
  EXPECT_TRUE(big.IsOver());
  small.Say(begun.substr(30 << 20) + Encode({kCheck, {"e"}}));
  EXPECT_EQ(small.Hear(1), std::string(1, '\0'));
}

TEST_F(TcpStoreServerTest, UnreadAnswersCountAsMemory) {
  const std::string value(8 << 20, 'v');
  Connection writer(port_);
  writer.Say(Encode(kHello) + Encode({kSet, {"k"}, {value}}) + Encode({kCheck, {"k"}}));
  EXPECT_EQ(writer.Hear(1), std::string(1, '\0'));
  Connection reader(port_);
  reader.Say(Encode(kHello) + Encode({kMultiGet, std::vector<std::string>(20, "k")}));
  const size_t whole = 20 * (8 + value.size());
  EXPECT_LT(reader.Hear(whole).size(), whole);
}

/// Returns a wait for `count` keys that are never set.
StoreRequest LongWait(size_t count) {
  StoreRequest wait = {.command = kWait};
  for (size_t i = 0; i < count; ++i) wait.keys.push_back(std::string(100, 'k') + std::to_string(i));
  return wait;
}

/// A complete request still counts while its client waits for the keys.
TEST_F(TcpStoreServerTest, AwaitedKeysCountAsMemory) {
  Connection patient(port_), greedy(port_), greedier(port_);
  patient.Say(Encode(kHello) + Encode({kCheck, {"k"}}) + Encode({kWait, {"k"}}));
  EXPECT_EQ(patient.Hear(1), "\1");
  greedy.Say(Encode(kHello) + Encode(LongWait(StoreParser::kMaxKeys / 2)));
  greedier.TryToSay(Encode(kHello) + Encode(LongWait(StoreParser::kMaxKeys)));
  EXPECT_TRUE(greedier.IsOver());
  greedy.Say(Encode({kCancelWait}));
  EXPECT_EQ(greedy.Hear(1), "\1");
  Connection writer(port_);
  writer.Say(Encode(kHello) + Encode({kSet, {"k"}, {"v"}}));
  EXPECT_EQ(patient.Hear(1), std::string(1, '\0'));
}

TEST(TcpStoreServerOptions, GrowWithTheJob) {
  const auto one = TcpStoreServer::OptionsFor(1, false), two = TcpStoreServer::OptionsFor(2, true);
  EXPECT_GE(one.most_clients, 64u);
  EXPECT_GT(two.most_held, one.most_held);
  EXPECT_TRUE(two.this_machine_only);
  const auto most = [](int workers, size_t files) {
    return TcpStoreServer::OptionsFor(workers, false, files).most_clients;
  };
  EXPECT_EQ(most(1, 1024), 128u);
  EXPECT_EQ(most(64, 4096), 2048u) << "half of the files";
  EXPECT_GE(most(2056, 4096), 2056u) << "each has one at least";
  EXPECT_EQ(most(1 << 20, 20'000), 20'000u - 512);
}

}  // namespace
}  // namespace mtrun::launcher
