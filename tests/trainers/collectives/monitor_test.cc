// The monitor of a rank with one peer, of which the test has the other ends.
#include "trainers/collectives/monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "tests/support/status.h"
#include "trainers/collectives/shutdown_notice.h"

namespace mtrun::collectives {
namespace {

using support::StatusIs;

constexpr char kPeerName[] = "rank 1 (pid 7 on b)";

class MonitorTest : public ::testing::Test {
 protected:
  MonitorTest() : peers_(2) {
    int ends[2];
    MT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    peers_[1].rank = 1;
    peers_[1].name = kPeerName;
    peers_[1].control = UniqueFd(ends[0]);
    peers_[1].process = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    control_ = UniqueFd(ends[1]);
    auto segment = OwnSegment::Create(/*generation=*/1, /*rank=*/0, /*world=*/2, 1 << 16);
    MT_CHECK(segment.ok()) << segment.status();
    transport_.emplace(0, 1, *std::move(segment), peers_, failure_);
    monitor_.emplace(peers_, *transport_, failure_);
  }

  /// A pidfd is readable when its process has ended.
  void EndProcess() { ASSERT_EQ(eventfd_write(peers_[1].process.get(), 1), 0); }
  void Send(const std::string& bytes) { ASSERT_TRUE(WriteAll(control_.get(), bytes).ok()); }
  absl::Status AwaitFailure() {
    pollfd event = {failure_.event_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&event, 1, 30'000), 1) << "nothing is noticed";
    return failure_.status();
  }

  std::vector<Peer> peers_;
  UniqueFd control_;
  Failure failure_;
  std::optional<Transport> transport_;
  std::optional<Monitor> monitor_;
};

/// A child of the peer can hold the connection open.
TEST_F(MonitorTest, EndOfAPeersProcessIsAFailure) {
  EndProcess();
  EXPECT_THAT(AwaitFailure(),
              StatusIs(absl::StatusCode::kUnavailable, "lost rank 1 (pid 7 on b): its process ended"));
}

TEST_F(MonitorTest, EndOfAConnectionIsAFailure) {
  control_.Reset();
  EXPECT_THAT(AwaitFailure(), StatusIs(absl::StatusCode::kUnavailable,
                                       "lost rank 1 (pid 7 on b): connection closed unexpectedly (killed, "
                                       "crashed or cut off)"));
}

TEST_F(MonitorTest, ReasonOfAPeerIsTheFailureHoweverItsBytesArrive) {
  const std::string notice = Encode(ShutdownNotice{.graceful = false, .why = "a third rank died"});
  for (const char byte : notice) Send(std::string(1, byte));
  control_.Reset();
  EXPECT_THAT(AwaitFailure(),
              StatusIs(absl::StatusCode::kAborted, "rank 1 (pid 7 on b) gave up: a third rank died"));
}

TEST_F(MonitorTest, PeerThatLeavesInOrderIsNoFailure) {
  Send(Encode(ShutdownNotice{.graceful = true, .why = ""}));
  while (transport_->FirstLeft() != 1) std::this_thread::yield();
  control_.Reset();
  EndProcess();
  monitor_.reset();
  EXPECT_FALSE(failure_.failed()) << failure_.status();
}

TEST_F(MonitorTest, EndOfAMonitorTellsThePeer) {
  for (const bool failed : {false, true}) {
    SCOPED_TRACE(failed);
    if (failed) failure_.Set(absl::AbortedError("the generation ended"));
    if (!monitor_) monitor_.emplace(peers_, *transport_, failure_);
    monitor_.reset();
    std::string bytes(kMaxNoticeBytes, '\0');
    const ssize_t got = read(control_.get(), bytes.data(), bytes.size());
    ASSERT_GT(got, 0);
    const auto notice = DecodeShutdownNotice(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
    ASSERT_TRUE(notice.has_value());
    EXPECT_EQ(notice->graceful, !failed);
    EXPECT_EQ(notice->why, failed ? "the generation ended" : "");
  }
}

}  // namespace
}  // namespace mtrun::collectives
