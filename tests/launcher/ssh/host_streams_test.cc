#include "launcher/ssh/host_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

class HostStreamsTest : public testing::Test {
 protected:
  std::string Shown(const std::string& prefix, const std::vector<std::string>& pieces) {
    const std::string out = folder_.File("out"), err = folder_.File("err");
    const UniqueFd fds[] = {UniqueFd(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)),
                            UniqueFd(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600))};
    auto console = std::make_shared<Console>(fds[0].get(), fds[1].get());
    HostStreams streams(prefix, console, FailureBoxes(std::make_shared<std::set<std::string>>()), 0);
    for (const std::string& piece : pieces) {
      streams.Show(0, piece, now_);
      now_ += wait_;
      if (const auto due = streams.Due(); due && *due <= now_) streams.OnTime(now_);
    }
    streams.Show(1, "error\n", now_);
    streams.Finish(now_);
    console->Flush(std::chrono::seconds(10));
    EXPECT_EQ(support::ReadText(err), prefix + "error\n");
    return support::ReadText(out);
  }

  const support::TemporaryFolder folder_;
  TimePoint now_ = TimePoint(std::chrono::hours(1));
  Duration wait_ = Duration::zero();  // after each piece
};

TEST_F(HostStreamsTest, LinesArePrefixedWithTheirHost) {
  EXPECT_EQ(Shown("a: ", {"one\ntw", "o\r\nthree"}), "a: one\na: two\na: three\n");
}

TEST_F(HostStreamsTest, UpdateAppearsAsALineAfterAWhile) {
  EXPECT_EQ(Shown("a: ", {"1 %\r2 %\r", "done\n"}), "a: done\n") << "at once";
  wait_ = std::chrono::seconds(2);
  EXPECT_EQ(Shown("a: ", {"1 %\r", "2 %\r", "..", ".", "\n"}), "a: 1 %\na: 2 %\na: ..\na: .\na: ...\n");
}

TEST_F(HostStreamsTest, OutputOfASingleHostIsUnchanged) {
  EXPECT_EQ(Shown("", {"one\ntw", "o\r", std::string("\0x", 2)}), std::string("one\ntwo\r\0x", 10));
}

}  // namespace
}  // namespace mtrun::launcher
