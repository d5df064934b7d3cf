#include "launcher/output/console.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/output/pipe.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace mtrun::launcher {
namespace {

/// Returns all data until the other end is closed.
std::string ReadAll(int fd) {
  std::string text;
  char bytes[64 << 10];
  for (ssize_t size; (size = read(fd, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(size));
  return text;
}

TEST(ConsoleTest, LinesComeOutInOrder) {
  Pipe out;
  std::string expected;
  {
    Console console(out.write.get(), out.write.get());
    for (int i = 0; i < 200; ++i) {
      const std::string line = absl::StrCat("line ", i, "\n");
      console.Lines(i % 2, line);
      expected += line;
    }
    console.Update(0, "not a terminal");
    EXPECT_TRUE(console.Flush(kPatience));
  }
  out.write.Reset();
  EXPECT_EQ(ReadAll(out.read.get()), expected);
}

/// A terminal of 20 columns that does not change any byte.
struct Terminal {
  UniqueFd screen, console;
  Terminal() {
    int master = -1, slave = -1;
    winsize size = {};
    size.ws_col = 20;
    size.ws_row = 5;
    MT_CHECK(openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    screen = UniqueFd(master);
    console = UniqueFd(slave);
    termios mode = {};
    MT_CHECK(tcgetattr(slave, &mode) == 0);
    cfmakeraw(&mode);
    MT_CHECK(tcsetattr(slave, TCSANOW, &mode) == 0);
  }
};

/// Returns what a terminal shows of the output of `say`.
std::string Shown(const std::function<void(Console&)>& say) {
  Terminal terminal;
  {
    Console console(terminal.console.get(), terminal.console.get());
    say(console);
    EXPECT_TRUE(console.Flush(kPatience));
  }
  terminal.console.Reset();
  return ReadAll(terminal.screen.get());
}

TEST(ConsoleTest, UpdateStaysBelowNewLines) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Update(0, "step 1");
              console.Lines(1, "a warning\n");
              console.Update(0, "step 2");
              console.Update(0, "");
              console.Lines(0, "done\n");
            }),
            "step 1\r\r\x1b[Ka warning\nstep 1\r\r\x1b[Kstep 2\r\r\x1b[Kdone\n");
}

TEST(ConsoleTest, UpdateIsCutToTheTerminalsWidth) {
  EXPECT_EQ(Shown([](Console& console) { console.Update(0, "0123456789012345678901234567890"); }),
            "0123456789012345678\r\r\x1b[K")
      << "the last column may wrap";
}

TEST(ConsoleTest, UnchangedUpdateIsWrittenOnce) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Update(0, "step 1");
              console.Update(0, "step 1");
            }),
            Shown([](Console& console) { console.Update(0, "step 1"); }));
}

TEST(ConsoleTest, UpdateErasesNothingInAFile) {
  const Terminal terminal;
  Pipe errors;
  {
    Console console(terminal.console.get(), errors.write.get());
    console.Update(0, "step 1");
    console.Lines(1, "a warning\n");
    ASSERT_TRUE(console.Flush(kPatience));
  }
  errors.write.Reset();
  EXPECT_EQ(ReadAll(errors.read.get()), "a warning\n");
}

TEST(ConsoleTest, PromptIsCompletedInPlace) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Begin(0, "[a]:name", 7, 0);
              console.Begin(0, "[a]:name? ", 7, 8);
              console.Finish(0, "[a]:name? Eve\n[a]:next\n", 7, 10);
            }),
            "[a]:name? Eve\n[a]:next\n");
}

TEST(ConsoleTest, LineOfAnotherStreamInterruptsThePromptWhichIsRepeated) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Begin(0, "[a]:name? ", 7, 0);
              console.Finish(1, "[b]:line\n", 8, 0);
              console.Finish(0, "[a]:name? Eve\n", 7, 10);
            }),
            "[a]:name? \n[b]:line\n[a]:name? Eve\n");
}

TEST(ConsoleTest, UpdateWaitsUntilThePromptIsAnswered) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Update(0, "step 1");
              console.Begin(0, "[a]:name? ", 7, 0);
              console.Update(0, "step 2");
              console.Finish(0, "[a]:name? Eve\n", 7, 10);
              console.Update(0, "");
            }),
            "step 1\r\r\x1b[K[a]:name? Eve\nstep 2\r\r\x1b[K");
}

TEST(ConsoleTest, RawBytesAreUnchangedAndMessagesStartOnANewLine) {
  EXPECT_EQ(Shown([](Console& console) {
              console.Raw(0, "50%\r");
              console.Raw(0, "60%");
              console.Say("mtrun: hello\n");
              console.Raw(0, "70%\n");
            }),
            "50%\r60%\nmtrun: hello\n70%\n");
  Pipe out;
  {
    Console console(out.write.get(), out.write.get());
    console.Raw(0, "no");
    console.Raw(0, " end");
  }
  out.write.Reset();
  EXPECT_EQ(ReadAll(out.read.get()), "no end");
}

TEST(ConsoleTest, SlowReaderDelaysOutputAndLosesNothing) {
  Pipe out;
  constexpr size_t kBlocks = 3 * Console::kQueueBytes / (64 << 10);
  const std::string block(63, 'x');
  std::string text;
  std::thread reader([&] { text = ReadAll(out.read.get()); });
  {
    Console console(out.write.get(), out.write.get());
    std::string lines;
    for (int i = 0; i < 1024; ++i) absl::StrAppend(&lines, block, "\n");
    for (size_t i = 0; i < kBlocks; ++i) console.Lines(0, lines);
    EXPECT_TRUE(console.Flush(kPatience));
  }
  out.write.Reset();
  reader.join();
  EXPECT_EQ(text.size(), kBlocks * (64 << 10));
}

TEST(ConsoleTest, DestructionWaitsForASlowReader) {
  Pipe out;
  std::string text;
  std::thread reader([&] {
    std::string bytes(64 << 10, '\0');
    for (ssize_t size; (size = read(out.read.get(), bytes.data(), bytes.size())) > 0;) {
      text.append(bytes, 0, static_cast<size_t>(size));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const size_t size = Console::kQueueBytes;
  {
    Console console(out.write.get(), out.write.get());
    for (size_t put = 0; put < size; put += 64 << 10)
      console.Lines(0, std::string((64 << 10) - 1, 'x') + "\n");
  }
  out.write.Reset();
  reader.join();
  EXPECT_EQ(text.size(), size);
}

TEST(ConsoleTest, OutputDroppedAtTheEndIsReportedOnTheOtherStream) {
  signal(SIGPIPE, SIG_IGN);  // as mtrun does
  const support::TemporaryFolder folder;
  const UniqueFd err(open(folder.File("err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  Pipe out;  // never read
  { Console(out.write.get(), err.get()).Lines(0, std::string(100'000, 'x') + "\n"); }
  EXPECT_EQ(support::ReadText(folder.File("err")),
            "mtrun: about 100001 bytes of output are missing here: the console did not take them\n");
}

TEST(ConsoleTest, OutputDroppedAtTheEndIsReportedWithEarlierLosses) {
  signal(SIGPIPE, SIG_IGN);
  const support::TemporaryFolder folder;
  const UniqueFd err(open(folder.File("err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  Pipe out;  // never read
  constexpr size_t kBlock = 1 << 20, kBlocks = 8;
  {
    Console console(out.write.get(), err.get(), [] { return true; });
    for (size_t i = 0; i < kBlocks; ++i) {
      console.Lines(0, std::string(kBlock - 1, 'x') + "\n");
      if (i == 5) console.FlushAll();  // reports the losses so far, after the unread output
    }
  }
  const std::string said = support::ReadText(folder.File("err")), about = "mtrun: about ";
  ASSERT_THAT(said, testing::StartsWith(about));
  const size_t bytes = std::stoul(said.substr(about.size()));
  EXPECT_GE(bytes, kBlocks * kBlock);
  EXPECT_LT(bytes, kBlocks * kBlock + 200) << "the notices that stand for them";
}

TEST(ConsoleTest, ReportedLossIsNotReportedAgain) {
  signal(SIGPIPE, SIG_IGN);
  const support::TemporaryFolder folder;
  const UniqueFd err(open(folder.File("err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  Pipe out;
  constexpr size_t kBlock = 1 << 20;
  std::thread reader;
  {
    Console console(out.write.get(), err.get());
    for (int i = 0; i < 6; ++i) console.Lines(0, std::string(kBlock - 1, 'x') + "\n");
    std::atomic<bool> done = false;
    reader = std::thread([&] {
      for (char bytes[64 << 10]; !done;) {
        pollfd ready = {out.read.get(), POLLIN, 0};
        if (poll(&ready, 1, 10) == 1 && read(out.read.get(), bytes, sizeof bytes) <= 0) return;
      }
    });
    EXPECT_TRUE(console.Flush(kPatience));
    done = true;
    reader.join();
    console.Lines(0, std::string(100'000, 'x') + "\n");
  }
  EXPECT_THAT(support::ReadText(folder.File("err")),
              testing::MatchesRegex("mtrun: [0-9]+ lines are missing here[^\n]*\n"
                                    "mtrun: about 100001 bytes of output are missing here[^\n]*\n"));
}

TEST(ConsoleTest, ShutdownRequestEndsTheWait) {
  signal(SIGPIPE, SIG_IGN);
  Pipe out;
  const TimePoint begin = MonotonicNow();
  {
    Console(out.write.get(), out.write.get(), [] { return true; }).Lines(0, std::string(100'000, 'x') + "\n");
  }
  EXPECT_LT(MonotonicNow() - begin, std::chrono::seconds(1));
}

/// Regression: the first moment without disk space ended the output.
TEST(ConsoleTest, OutputResumesAfterAFullDisk) {
  const support::TemporaryFolder folder;
  const auto disk = support::SmallDisk::Make(folder.File("disk"), 64 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  const UniqueFd out(open(folder.File("disk/out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd err(open(folder.File("err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  {
    Console console(out.get(), err.get());
    const auto say = [&](const std::string& text) {
      console.Lines(0, text);
      EXPECT_TRUE(console.Flush(kPatience));
    };
    say("before\n");
    (*disk)->Fill();
    for (int i = 0; i < 3; ++i) say(std::string(10'000, 'x') + "\n");
    (*disk)->Free();
    say("after\n");
  }
  const std::string kept = support::ReadText(folder.File("disk/out")),
                    said = support::ReadText(folder.File("err"));
  EXPECT_THAT(kept, testing::StartsWith("before\n"));
  EXPECT_THAT(kept, testing::EndsWith("after\n"));
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(said, "No space left")).size(), 2u) << said;
  EXPECT_THAT(said, testing::EndsWith(" bytes are missing on standard output\n"));
}

TEST(ConsoleTest, LinesLostByABlockedConsoleAreCountedAndReported) {
  Pipe out;
  Console console(out.write.get(), out.write.get());
  std::string lines;
  for (int i = 0; i < 1024; ++i) absl::StrAppend(&lines, std::string(1023, 'x'), "\n");
  for (int i = 0; i < 8; ++i) console.Lines(0, lines);  // 8 MiB, never read
  std::string text;
  std::thread reader([&] {
    char bytes[64 << 10];
    while (text.find("end\n") == std::string::npos) {
      const ssize_t size = read(out.read.get(), bytes, sizeof bytes);
      if (size <= 0) break;
      text.append(bytes, static_cast<size_t>(size));
    }
  });
  EXPECT_TRUE(console.Flush(kPatience));
  console.Lines(0, "end\n");
  EXPECT_TRUE(console.Flush(kPatience));
  reader.join();
  const auto lost = text.find("lines are missing here");
  ASSERT_NE(lost, std::string::npos);
  const size_t begin = text.rfind("mtrun: ", lost) + 7;
  const int count = std::stoi(text.substr(begin));
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x') / 1023 + count, 8 * 1024);
  EXPECT_THAT(text, testing::EndsWith("end\n"));
}

TEST(ConsoleTest, ClosedReaderStopsNothing) {
  signal(SIGPIPE, SIG_IGN);
  Pipe out;
  out.read.Reset();
  Console console(out.write.get(), out.write.get());
  for (int i = 0; i < 100; ++i) console.Lines(0, std::string(64 << 10, 'x') + "\n");
  EXPECT_TRUE(console.Flush(kPatience));
}

}  // namespace
}  // namespace mtrun::launcher
