#include "trainers/collectives/agent_store.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/posix.h"
#include "base/worker_channel.h"

namespace mtrun::collectives {
namespace {

/// The part of an agent that the store needs: it keeps sets and answers a wait when all its keys exist.
class ToyAgent {
 public:
  ToyAgent() : folder_(*MakeTemporaryFolder("mtrun-agent-")) {
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ToyAgent() {
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/socket"; }

 private:
  void Serve() {
    const UniqueFd worker(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string inbox;
    char buffer[4096];
    for (ssize_t count = 0; (count = read(worker.get(), buffer, sizeof(buffer))) > 0;) {
      inbox.append(buffer, static_cast<size_t>(count));
      for (size_t end = 0; (end = inbox.find('\n')) != std::string::npos; inbox.erase(0, end + 1)) {
        const auto message = channel::DecodeWorkerMessage(inbox.substr(0, end));
        ASSERT_TRUE(message.ok()) << message.status();
        if (const auto* set = std::get_if<channel::StoreSet>(&*message)) values_[set->key] = set->value;
        if (const auto* wait = std::get_if<channel::StoreWait>(&*message)) waits_.push_back(*wait);
        Answer(worker.get());
      }
    }
  }
  void Answer(int worker) {
    std::erase_if(waits_, [&](const channel::StoreWait& wait) {
      channel::StoreValues reply;
      reply.id = wait.id;
      for (const std::string& key : wait.keys) {
        if (!values_.contains(key)) return false;
        reply.values[key] = values_[key];
      }
      EXPECT_TRUE(WriteAll(worker, channel::Encode(channel::AgentMessage(reply))).ok());
      return true;
    });
  }

  const std::string folder_;
  UniqueFd listener_;
  std::map<std::string, std::string> values_;
  std::vector<channel::StoreWait> waits_;
  std::thread thread_;
};

TEST(AgentStoreTest, SetsWaitsAndAborts) {
  ToyAgent agent;
  auto client = WorkerClient::Connect(agent.path(), channel::Hello{}, WorkerClient::Handler());
  ASSERT_TRUE(client.ok()) << client.status();
  AgentStore store(*std::move(client));
  const std::string binary("\0\xff key\n", 7);  // keys of a mesh are random bytes
  ASSERT_TRUE(store.Set("a", binary).ok());
  std::thread other([&] { EXPECT_TRUE(store.Set("b", "2").ok()); });
  const auto values = store.Wait({"a", "b"});
  other.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->at("a"), binary);
  EXPECT_EQ(values->at("b"), "2");

  std::thread aborter([&] { store.Abort("dissolved"); });
  EXPECT_TRUE(absl::IsAborted(store.Wait({"never"}).status()));
  aborter.join();
}

}  // namespace
}  // namespace mtrun::collectives
