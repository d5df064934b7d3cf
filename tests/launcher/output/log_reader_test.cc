#include "launcher/output/log_reader.h"

#include <sys/stat.h>

#include <filesystem>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using rendezvous::kMaxLogBytes;
using rendezvous::LogPart;
using rendezvous::LogRequest;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LogReaderTest : public ::testing::Test {
 protected:
  WorkerFiles Files() const { return {folder_.File("stdout.log"), folder_.File("stderr.log"), "", "", ""}; }
  static LogRequest After(const LogPart& part) { return {1, 3, part.attempt, part.out_end, part.err_end}; }

  const support::TemporaryFolder folder_;
};

TEST_F(LogReaderTest, ReadsTheLastLinesAndThenNewOnes) {
  support::WriteText(folder_.File("stdout.log"), "one\ntwo\n");
  const LogPart first = ReadLogPart({.id = 1, .rank = 3}, Files());
  EXPECT_EQ(first.out, "one\ntwo\n");
  EXPECT_EQ(first.err, "") << "no such file yet";
  EXPECT_EQ(first.attempt, folder_.path());
  support::WriteText(folder_.File("stdout.log"), "one\ntwo\nthree");
  support::WriteText(folder_.File("stderr.log"), "oops\n");
  const LogPart next = ReadLogPart(After(first), Files());
  EXPECT_EQ(next.out, "three");
  EXPECT_EQ(next.err, "oops\n");
  EXPECT_FALSE(next.more);
}

TEST_F(LogReaderTest, LargeFileIsReadInPartsOfWholeLines) {
  std::string text;
  for (int i = 0; text.size() < 3 * kMaxLogBytes; ++i) text += "line " + std::to_string(i) + "\n";
  support::WriteText(folder_.File("stdout.log"), text);
  const LogPart tail = ReadLogPart({.id = 1, .rank = 3}, Files());
  EXPECT_LE(tail.out.size(), kMaxLogBytes);
  EXPECT_THAT(tail.out, StartsWith("line "));
  EXPECT_TRUE(text.ends_with(tail.out));
  LogPart part = ReadLogPart({1, 3, tail.attempt, 0, 0}, Files());
  std::string all = part.out;
  EXPECT_TRUE(part.more);
  while (part.more) all += (part = ReadLogPart(After(part), Files())).out;
  EXPECT_EQ(all, text);
}

TEST_F(LogReaderTest, LastLineThatIsLongerThanAPartIsShownFromItsEnd) {
  std::string bar;
  for (int i = 0; bar.size() < 2 * kMaxLogBytes; ++i) bar += "\r" + std::to_string(i) + " of many";
  for (const char* end : {"\n", "\r\n", ""}) {
    support::WriteText(folder_.File("stdout.log"), "before\n" + bar + end);
    const LogPart tail = ReadLogPart({.id = 1, .rank = 3}, Files());
    EXPECT_GT(tail.out.size(), kMaxLogBytes / 2);
    EXPECT_TRUE((bar + end).ends_with("\r" + tail.out)) << "from a whole state of the bar";
  }
  support::WriteText(folder_.File("stdout.log"), std::string(2 * kMaxLogBytes, 'x') + "\n");
  EXPECT_EQ(ReadLogPart({.id = 1, .rank = 3}, Files()).out, std::string(kMaxLogBytes - 1, 'x') + "\n");
  support::WriteText(folder_.File("stdout.log"), std::string(2 * kMaxLogBytes, 'x') + "\nlast\n");
  EXPECT_EQ(ReadLogPart({.id = 1, .rank = 3}, Files()).out, "last\n");
}

// A worker may replace its log by a link to a file that it cannot read, but mtrun can.
TEST_F(LogReaderTest, LinksAndSpecialFilesAreNotRead) {
  support::WriteText(folder_.File("secret"), "a token\n");
  std::filesystem::create_symlink(folder_.File("secret"), folder_.File("stdout.log"));
  EXPECT_THAT(ReadLogPart({.id = 1, .rank = 3}, Files()).error, HasSubstr("has no log files in"));
  ASSERT_EQ(mkfifo(folder_.File("stderr.log").c_str(), 0600), 0);
  EXPECT_THAT(ReadLogPart({.id = 1, .rank = 3}, Files()).error, HasSubstr("has no log files in"));
}

TEST_F(LogReaderTest, MoreOfEitherStreamIsTold) {
  const std::string large(kMaxLogBytes + 1, 'x');
  for (const auto& [out, err, more] :
       {std::tuple{large, std::string("y"), true}, {"x", large, true}, {"x", "y", false}}) {
    support::WriteText(folder_.File("stdout.log"), out);
    support::WriteText(folder_.File("stderr.log"), err);
    EXPECT_EQ(ReadLogPart({1, 3, folder_.path(), 0, 0}, Files()).more, more)
        << out.size() << " " << err.size();
  }
}

TEST_F(LogReaderTest, NewAttemptIsReadFromItsStart) {
  support::WriteText(folder_.File("stdout.log"), "again\n");
  EXPECT_EQ(ReadLogPart({1, 3, "/logs/attempt_0/1", 100, 0}, Files()).out, "again\n");
}

TEST_F(LogReaderTest, ErrorExplainsMissingFiles) {
  EXPECT_THAT(ReadLogPart({.id = 1, .rank = 3}, {}).error, HasSubstr("--log_dir /dev/null"));
  EXPECT_THAT(ReadLogPart({.id = 1, .rank = 3}, Files()).error, HasSubstr("has no log files in"));
}

TEST_F(LogReaderTest, TooManyRequestsAreRefused) {
  support::WriteText(folder_.File("stdout.log"), "x\n");
  asio::io_context io;
  size_t read = 0, refused = 0;
  {
    LogReader reader(io);
    for (size_t i = 0; i < LogReader::kMaxWaiting + 2; ++i)
      reader.Read({.id = 1, .rank = 3}, Files(),
                  [&](const LogPart& part) { ++(part.error.empty() ? read : refused); });
    while (read < LogReader::kMaxWaiting) io.restart(), io.run_one();
  }
  EXPECT_EQ(refused, 2u);
}

}  // namespace
}  // namespace mtrun::launcher
