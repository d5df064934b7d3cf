#include "launcher/channel/channel_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio.hpp>
#include <filesystem>
#include <future>

#include "base/posix.h"
#include "base/status_macros.h"
#include "base/unix_address.h"
#include "base/worker_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using channel::WorkerMessage;

struct Heard {
  int64_t connection = 0;
  int local_rank = 0;
  WorkerMessage message;
};

class ChannelServerTest : public testing::Test {
 protected:
  ChannelServerTest() {
    auto server = ChannelServer::Start(
        io_,
        [this](int64_t connection, int local_rank, const WorkerMessage& message) {
          heard_.push_back({connection, local_rank, message});
        },
        [this] { return data_key_; });
    MT_CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  /// Runs the loop until the condition holds.
  template <typename Condition>
  bool RunUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(20));
      io_.restart();
    }
    return true;
  }

  UniqueFd ConnectRaw() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const UnixAddress address = *ParseUnixAddress(server_->name());
    MT_CHECK(connect(socket.get(), address.get(), address.size) == 0);
    return socket;
  }

  static bool IsClosed(const UniqueFd& socket) {
    char byte = 0;
    return recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  asio::io_context io_;
  std::string data_key_;
  std::vector<Heard> heard_;
  std::unique_ptr<ChannelServer> server_;
};

TEST_F(ChannelServerTest, SocketIsPrivateToItsUser) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setuid(65534) != 0) _exit(2);
    const UniqueFd socket = ConnectRaw();
    char byte = 0;
    _exit(recv(socket.get(), &byte, 1, 0) == 0 ? 0 : 1);  // closed
  }
  int status = -1;
  EXPECT_TRUE(RunUntil([&] { return waitpid(stranger, &status, WNOHANG) == stranger; }));
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(heard_.empty());
}

/// Returns the open descriptors of this process, which has both ends.
size_t CountDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

TEST_F(ChannelServerTest, ManyConnectionsAreAcceptedInBatches) {
  constexpr size_t kCrowd = 200;
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < kCrowd; ++i) crowd.push_back(ConnectRaw());
  const size_t before = CountDescriptors();
  ASSERT_TRUE(RunUntil([&] { return CountDescriptors() > before; }));
  EXPECT_LE(CountDescriptors() - before, 64u);
  EXPECT_TRUE(RunUntil([&] { return CountDescriptors() == before + kCrowd; }));
}

TEST_F(ChannelServerTest, MessagesQueuedAfterManyConnectionsAreReadAtExit) {
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < 200; ++i) crowd.push_back(ConnectRaw());
  const UniqueFd worker = ConnectRaw();
  ASSERT_TRUE(WriteAll(worker.get(), channel::Encode(channel::Hello{})).ok());
  server_->ReadRest(0);
  EXPECT_EQ(heard_.size(), 1u);
}

TEST_F(ChannelServerTest, ProgramThatAsksGetsTheDataKeyWithoutBeingAWorker) {
  for (const std::string& key : {std::string("secret.pin"), std::string()}) {
    data_key_ = key;
    auto answer = std::async(std::launch::async, [&] { return AskAgentForDataKey(server_->name()); });
    ASSERT_TRUE(
        RunUntil([&] { return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
    EXPECT_EQ(answer.get().value_or("error"), key);
  }
  EXPECT_TRUE(heard_.empty());
  EXPECT_EQ(AskAgentForDataKey("@nothing listens here").value_or("error"), "");
}

/// An mtrun of an earlier version closes the connection.
TEST_F(ChannelServerTest, AgentThatDoesNotKnowDataKeysHasNone) {
  const std::string name = server_->name() + "-earlier";
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UnixAddress address = *ParseUnixAddress(name);
  ASSERT_EQ(bind(listener.get(), address.get(), address.size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  auto answer = std::async(std::launch::async, [&] { return AskAgentForDataKey(name); });
  UniqueFd(accept(listener.get(), nullptr, nullptr));
  EXPECT_EQ(answer.get().value_or("error"), "");
}

TEST_F(ChannelServerTest, SocketIsClosedOnDestruction) {
  const std::string name = server_->name();
  EXPECT_EQ(name.front(), '@') << "no file";
  server_.reset();
  EXPECT_FALSE(WorkerClient::Connect(name, channel::Hello{}, WorkerClient::Handler()).ok());
}

/// The socket stays readable if a connection cannot be accepted.
TEST_F(ChannelServerTest, WithoutDescriptorsTheLoopDoesNotSpin) {
  const UniqueFd worker = ConnectRaw();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const size_t turns = io_.run_for(std::chrono::milliseconds(200));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(turns, 20u);
  ASSERT_TRUE(WriteAll(worker.get(), channel::Encode(channel::Hello{})).ok());
  EXPECT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
}

TEST_F(ChannelServerTest, MessagesGoBothWays) {
  std::promise<channel::AgentMessage> told;
  WorkerClient::Handler handler;
  handler.message = [&](const channel::AgentMessage& message) { told.set_value(message); };
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = 2;
  auto worker = WorkerClient::Connect(server_->name(), hello, handler);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE((*worker)->Send(channel::Done{7}).ok());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  EXPECT_EQ(heard_[0].message, WorkerMessage(hello));
  EXPECT_EQ(heard_[1].message, WorkerMessage(channel::Done{7}));
  EXPECT_EQ(heard_[1].local_rank, 2);
  EXPECT_EQ(heard_[0].connection, heard_[1].connection);

  server_->SendToRank(1, channel::Stop{"nobody is there"});
  server_->SendToRank(2, channel::Stop{"the end"});
  auto future = told.get_future();
  ASSERT_TRUE(
      RunUntil([&] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
  EXPECT_EQ(future.get(), channel::AgentMessage(channel::Stop{"the end"}));
}

TEST_F(ChannelServerTest, StoreRequestsAreAnsweredOnTheirConnection) {
  channel::Hello hello;
  auto worker = WorkerClient::Connect(server_->name(), hello, {});
  ASSERT_TRUE(worker.ok()) << worker.status();
  auto waited = std::async(std::launch::async, [&] { return (*worker)->Wait({"k"}); });
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  const auto& question = std::get<channel::StoreWait>(heard_[1].message);
  server_->SendToConnection(heard_[1].connection, channel::StoreValues{question.id, {{"k", "v"}}, ""});
  ASSERT_TRUE(
      RunUntil([&] { return waited.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
  EXPECT_EQ(waited.get()->at("k"), "v");
}

TEST_F(ChannelServerTest, NonsenseClosesOnlyItsConnection) {
  const UniqueFd bad = ConnectRaw(), early = ConnectRaw();
  ASSERT_TRUE(WriteAll(bad.get(), "no json\n").ok());
  ASSERT_TRUE(WriteAll(early.get(), channel::Encode(WorkerMessage(channel::Done{1}))).ok());
  ASSERT_TRUE(RunUntil([&] { return IsClosed(bad) && IsClosed(early); }));
  EXPECT_TRUE(heard_.empty());
  const UniqueFd good = ConnectRaw();
  ASSERT_TRUE(WriteAll(good.get(), channel::Encode(WorkerMessage(channel::Hello{}))).ok());
  EXPECT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
}

TEST_F(ChannelServerTest, AnotherProtocolIsRefused) {
  channel::Hello hello;
  hello.protocol = channel::kProtocolVersion + 1;
  const UniqueFd socket = ConnectRaw();
  ASSERT_TRUE(WriteAll(socket.get(), channel::Encode(WorkerMessage(hello))).ok());
  EXPECT_TRUE(RunUntil([&] { return IsClosed(socket); }));
  EXPECT_TRUE(heard_.empty());
}

TEST_F(ChannelServerTest, MessagesOfADeadWorkerAreReadAtOnce) {
  UniqueFd socket = ConnectRaw();
  const std::string said = channel::Encode(WorkerMessage(channel::Hello{})) +
                           channel::Encode(WorkerMessage(channel::Leaving{"x"}));
  ASSERT_TRUE(WriteAll(socket.get(), said).ok());
  socket.Reset();
  server_->ReadRest(0);  // the loop has not run yet
  ASSERT_EQ(heard_.size(), 2u);
  EXPECT_EQ(heard_[1].message, WorkerMessage(channel::Leaving{"x"}));
}

TEST_F(ChannelServerTest, SuccessorIsNotMistakenForItsPredecessor) {
  const UniqueFd old = ConnectRaw();
  ASSERT_TRUE(WriteAll(old.get(), channel::Encode(WorkerMessage(channel::Hello{}))).ok());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
  server_->Disconnect(0);
  ASSERT_TRUE(RunUntil([&] { return IsClosed(old); }));
  const UniqueFd fresh = ConnectRaw();
  ASSERT_TRUE(WriteAll(fresh.get(), channel::Encode(WorkerMessage(channel::Hello{}))).ok());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  server_->SendToRank(0, channel::Stop{"now"});
  char byte = 0;
  EXPECT_TRUE(RunUntil([&] { return recv(fresh.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1; }));
}

TEST_F(ChannelServerTest, DisconnectAllEndsTheGeneration) {
  const UniqueFd socket = ConnectRaw();
  ASSERT_TRUE(WriteAll(socket.get(), channel::Encode(WorkerMessage(channel::Hello{}))).ok());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
  server_->DisconnectAll();
  EXPECT_TRUE(RunUntil([&] { return IsClosed(socket); }));
}

}  // namespace
}  // namespace mtrun::launcher
