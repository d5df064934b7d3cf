#include "base/worker_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/json_lines.h"
#include "base/posix.h"
#include "tests/support/other_users_listener.h"
#include "tests/support/status.h"

namespace mtrun {
namespace {

/// The agent's end, controlled by the test line by line.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& path) : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
  }
  void Accept() { connection_ = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  channel::WorkerMessage Receive() {
    while (true) {
      if (auto line = lines_.Next()) return *channel::DecodeWorkerMessage(*line);
      std::array<char, 4096> piece;
      const ssize_t n = read(connection_.get(), piece.data(), piece.size());
      EXPECT_GT(n, 0);
      EXPECT_TRUE(lines_.Append(std::string_view(piece.data(), static_cast<size_t>(n))).ok());
    }
  }
  void Send(const channel::AgentMessage& message) {
    EXPECT_TRUE(WriteAll(connection_.get(), channel::Encode(message)).ok());
  }
  void SendRaw(std::string_view text) { EXPECT_TRUE(WriteAll(connection_.get(), text).ok()); }
  void Close() { connection_.Reset(); }

 private:
  UniqueFd listener_, connection_;
  LineBuffer lines_;
};

class WorkerClientTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = *MakeTemporaryFolder("mtrun-client-");
    agent_ = std::make_unique<FakeAgent>(folder_ + "/s");
    auto connected = WorkerClient::Connect(folder_ + "/s", channel::Hello{1, getpid(), 0, false},
                                           {[this](const channel::AgentMessage& m) {
                                              last_ = m;
                                              arrived_.set_value();
                                            },
                                            [this](absl::Status status) {
                                              why_ = status;
                                              closed_.set_value();
                                            }});
    ASSERT_TRUE(connected.ok()) << connected.status();
    client_ = *std::move(connected);
    agent_->Accept();
    EXPECT_EQ(std::get<channel::Hello>(agent_->Receive()).pid, getpid());
  }
  void TearDown() override {
    client_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  std::unique_ptr<FakeAgent> agent_;
  std::unique_ptr<WorkerClient> client_;
  channel::AgentMessage last_;
  absl::Status why_;
  std::promise<void> arrived_, closed_;
};

TEST_F(WorkerClientTest, SetAndWaitReachTheAgent) {
  ASSERT_TRUE(client_->Set("k", "v").ok());
  EXPECT_EQ(std::get<channel::StoreSet>(agent_->Receive()), (channel::StoreSet{"k", "v"}));
  std::thread agent([&] {
    const auto ask = std::get<channel::StoreWait>(agent_->Receive());
    agent_->Send(channel::StoreValues{ask.id, {{"k", "v"}}, ""});
  });
  EXPECT_EQ(client_->Wait({"k"})->at("k"), "v");
  agent.join();
}

TEST(WorkerClientConnectTest, AgentOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string name = "@mtrun-client-test-" + std::to_string(getpid());
  support::OtherUsersListener stranger(name);
  EXPECT_TRUE(stranger.Listens());
  EXPECT_THAT(WorkerClient::Connect(name, channel::Hello{}, WorkerClient::Handler()),
              support::StatusIs(absl::StatusCode::kPermissionDenied,
                                "a program of another user is listening at " + name));
  EXPECT_EQ(stranger.End(), 0);
}

/// The rendezvous rejects longer requests.
TEST_F(WorkerClientTest, ManyKeysAreRequestedInPieces) {
  constexpr size_t kKeys = 2 * channel::kMaxStoreKeys + 1;
  client_->Enter({3, 0xab});
  std::vector<std::string> keys;
  for (size_t key = 0; key < kKeys; ++key) keys.push_back(std::to_string(key));
  std::vector<size_t> pieces;
  std::thread agent([&] {
    for (size_t answered = 0; answered < kKeys;) {
      const auto ask = std::get<channel::StoreWait>(agent_->Receive());
      EXPECT_EQ(ask.generation, (channel::Generation{3, 0xab}));
      channel::StoreValues reply{ask.id, {}, ""};
      for (const std::string& key : ask.keys) reply.values[key] = "value " + key;
      answered += ask.keys.size();
      pieces.push_back(ask.keys.size());
      agent_->Send(reply);
    }
  });
  const auto values = client_->Wait(keys);
  agent.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->size(), kKeys);
  for (const std::string& key : keys) EXPECT_EQ(values->at(key), "value " + key);
  EXPECT_EQ(pieces, (std::vector<size_t>{channel::kMaxStoreKeys, channel::kMaxStoreKeys, 1}));
}

/// The generation of the first request ends before its values arrive, and the next one has begun.
TEST_F(WorkerClientTest, AbortBetweenTwoPiecesEndsTheWholeWait) {
  const std::vector<std::string> keys(channel::kMaxStoreKeys + 1, "k");
  std::thread agent([&] {
    const auto ask = std::get<channel::StoreWait>(agent_->Receive());
    client_->Abort("regrouping");
    client_->ResetAbort();
    agent_->Send(channel::StoreValues{ask.id, {{"k", "v"}}, ""});
  });
  EXPECT_EQ(client_->Wait(keys).status(), absl::AbortedError("regrouping"));
  agent.join();
}

TEST_F(WorkerClientTest, RequestsNameTheEnteredGeneration) {
  client_->Enter({3, 0xab});
  ASSERT_TRUE(client_->Set("k", "v").ok());
  EXPECT_EQ(std::get<channel::StoreSet>(agent_->Receive()), (channel::StoreSet{"k", "v", {3, 0xab}}));
  std::thread agent([&] {
    const auto ask = std::get<channel::StoreWait>(agent_->Receive());
    EXPECT_EQ(ask.generation, (channel::Generation{3, 0xab}));
    agent_->Send(channel::StoreValues{ask.id, {}, ""});
  });
  EXPECT_TRUE(client_->Wait({}).ok());
  agent.join();
}

TEST_F(WorkerClientTest, ErrorReplyEndsTheWait) {
  std::thread agent([&] {
    const auto ask = std::get<channel::StoreWait>(agent_->Receive());
    agent_->Send(channel::StoreValues{ask.id, {}, "generation 3 dissolved"});
  });
  const absl::Status status = client_->Wait({"k"}).status();
  EXPECT_EQ(status, absl::AbortedError("generation 3 dissolved"));
  agent.join();
}

TEST_F(WorkerClientTest, AbortEndsABlockedWaitAndResetAllowsTheNext) {
  std::thread aborter([&] {
    agent_->Receive();
    client_->Abort("regrouping");
  });
  EXPECT_EQ(client_->Wait({"never"}).status(), absl::AbortedError("regrouping"));
  aborter.join();
  EXPECT_FALSE(client_->Wait({"still"}).ok());
  client_->ResetAbort();
  std::thread agent([&] {
    const auto ask = std::get<channel::StoreWait>(agent_->Receive());
    agent_->Send(channel::StoreValues{ask.id, {{"k", "v"}}, ""});
  });
  EXPECT_TRUE(client_->Wait({"k"}).ok());
  agent.join();
}

TEST_F(WorkerClientTest, MessagesArriveAtTheHandler) {
  agent_->Send(channel::Stop{"enough"});
  arrived_.get_future().wait();
  EXPECT_EQ(std::get<channel::Stop>(last_).why, "enough");
}

TEST_F(WorkerClientTest, DisconnectedAgentEndsEverything) {
  std::thread agent([&] {
    agent_->Receive();
    agent_->Close();
  });
  EXPECT_EQ(client_->Wait({"k"}).status().code(), absl::StatusCode::kUnavailable);
  agent.join();
  closed_.get_future().wait();
  EXPECT_EQ(why_.code(), absl::StatusCode::kUnavailable);
  client_->ResetAbort();
  EXPECT_FALSE(client_->Wait({"k"}).ok());
}

TEST_F(WorkerClientTest, GarbageClosesTheChannelWithTheReason) {
  agent_->SendRaw("not json\n");
  closed_.get_future().wait();
  EXPECT_EQ(why_.code(), absl::StatusCode::kInvalidArgument);
}

TEST(WorkerClientConnect, ErrorNamesAMissingSocket) {
  const auto connected = WorkerClient::Connect("/nonexistent/agent.sock", channel::Hello{}, {});
  EXPECT_EQ(connected.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(connected.status().message()).find("/nonexistent/agent.sock"), std::string::npos);
}

}  // namespace
}  // namespace mtrun
