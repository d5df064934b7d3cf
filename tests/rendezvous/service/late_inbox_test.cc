#include "rendezvous/service/late_inbox.h"

#include <asio/io_context.hpp>
#include <string>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kLong = std::chrono::hours(1);

class LateInboxTest : public testing::Test {
 protected:
  void Add(LateInbox& inbox, char name) {
    inbox.Add([this, name] { heard_ += name; });
  }
  void Poll() {
    loop_.restart();
    loop_.poll();
  }

  asio::io_context loop_;
  std::string heard_;
};

TEST_F(LateInboxTest, OneThatComesAloneIsHeardAtOnce) {
  LateInbox inbox(loop_, kLong);
  Add(inbox, 'a');
  EXPECT_EQ(heard_, "");
  Poll();
  EXPECT_EQ(heard_, "a");
}

TEST_F(LateInboxTest, ThoseThatFollowWaitForThePause) {
  LateInbox inbox(loop_, std::chrono::milliseconds(1));
  Add(inbox, 'a');
  Poll();
  Add(inbox, 'b');
  Add(inbox, 'c');
  loop_.restart();
  loop_.run();  // until nothing is left that it waits for
  EXPECT_EQ(heard_, "abc");
}

TEST_F(LateInboxTest, TheyAreHeardBeforeADecision) {
  LateInbox inbox(loop_, kLong);
  Add(inbox, 'a');
  Poll();
  Add(inbox, 'b');
  Add(inbox, 'c');
  Poll();
  EXPECT_EQ(heard_, "a");
  inbox.Drain();
  EXPECT_EQ(heard_, "abc");
  inbox.Drain();
  Poll();
  EXPECT_EQ(heard_, "abc");
}

TEST_F(LateInboxTest, WhoComesBehindADecisionIsNotForgotten) {
  LateInbox inbox(loop_, std::chrono::milliseconds(1));
  Add(inbox, 'a');
  Poll();
  Add(inbox, 'b');
  inbox.Drain();  // before the loop has heard that there is one
  Add(inbox, 'c');
  loop_.restart();
  loop_.run();
  EXPECT_EQ(heard_, "abc");
}

}  // namespace
}  // namespace mtrun::rendezvous
