#include "launcher/store/store_door.h"

#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

class CountingStore final : public TcpStoreServer {
 public:
  void StartOver(Options) override {}
  void Adopt(UniqueFd connection) override { adopted.push_back(std::move(connection)); }
  std::vector<UniqueFd> adopted;
};

/// A connection, and the end of the client.
struct Caller {
  Caller() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client = UniqueFd(ends[0]);
    connection = UniqueFd(ends[1]);
  }
  bool IsClosed() const {
    char byte = 0;
    return recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  UniqueFd client, connection;
};

TEST(StoreDoorTest, ClientsWaitForTheStoreOfTheFirstGeneration) {
  StoreDoor door;
  CountingStore store;
  Caller early, late;
  door.Enter(std::move(early.connection));
  EXPECT_FALSE(early.IsClosed());
  door.LeadTo(&store);
  EXPECT_EQ(store.adopted.size(), 1u);
  door.Enter(std::move(late.connection));
  EXPECT_EQ(store.adopted.size(), 2u);
}

/// Another node may start its workers first. They must not see the keys of the last generation.
TEST(StoreDoorTest, ClientsOfTheNextGenerationDoNotReachTheLastOnesStore) {
  StoreDoor door;
  CountingStore last, next;
  door.LeadTo(&last);
  door.Hold();
  Caller early;
  door.Enter(std::move(early.connection));
  EXPECT_TRUE(last.adopted.empty());
  EXPECT_FALSE(early.IsClosed());
  door.LeadTo(&next);
  EXPECT_TRUE(last.adopted.empty());
  EXPECT_EQ(next.adopted.size(), 1u);
}

TEST(StoreDoorTest, ClientsAreTurnedAwayWhereNoStoreIsServed) {
  StoreDoor door;
  Caller early, late;
  door.Enter(std::move(early.connection));
  door.LeadTo(nullptr);
  EXPECT_TRUE(early.IsClosed());
  door.Enter(std::move(late.connection));
  EXPECT_TRUE(late.IsClosed());
}

}  // namespace
}  // namespace mtrun::launcher
