#include "rendezvous/service/heartbeat_queue.h"

#include <asio/io_context.hpp>
#include <string>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kLong = std::chrono::hours(1);

class HeartbeatQueueTest : public testing::Test {
 protected:
  void Add(HeartbeatQueue& queue, char name) {
    queue.Add([this, name] { heard_ += name; });
  }
  void Poll() {
    loop_.restart();
    loop_.poll();
  }

  asio::io_context loop_;
  std::string heard_;
};

TEST_F(HeartbeatQueueTest, SingleMessageIsDeliveredAtOnce) {
  HeartbeatQueue queue(loop_, kLong);
  Add(queue, 'a');
  EXPECT_EQ(heard_, "");
  Poll();
  EXPECT_EQ(heard_, "a");
}

TEST_F(HeartbeatQueueTest, FollowingMessagesWaitForThePause) {
  HeartbeatQueue queue(loop_, std::chrono::milliseconds(1));
  Add(queue, 'a');
  Poll();
  Add(queue, 'b');
  Add(queue, 'c');
  loop_.restart();
  loop_.run();  // returns if it waits for nothing more
  EXPECT_EQ(heard_, "abc");
}

TEST_F(HeartbeatQueueTest, DrainDeliversBeforeADecision) {
  HeartbeatQueue queue(loop_, kLong);
  Add(queue, 'a');
  Poll();
  Add(queue, 'b');
  Add(queue, 'c');
  Poll();
  EXPECT_EQ(heard_, "a");
  queue.Drain();
  EXPECT_EQ(heard_, "abc");
  queue.Drain();
  Poll();
  EXPECT_EQ(heard_, "abc");
}

TEST_F(HeartbeatQueueTest, MessageAfterADrainIsDelivered) {
  HeartbeatQueue queue(loop_, std::chrono::milliseconds(1));
  Add(queue, 'a');
  Poll();
  Add(queue, 'b');
  queue.Drain();  // before the loop knows that there is one
  Add(queue, 'c');
  loop_.restart();
  loop_.run();
  EXPECT_EQ(heard_, "abc");
}

}  // namespace
}  // namespace mtrun::rendezvous
