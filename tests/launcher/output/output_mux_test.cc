#include "launcher/output/output_mux.h"

#include <fcntl.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/output/output_mux_fixture.h"
#include "tests/launcher/output/pipe.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A terminal that does not change any byte.
struct Screen {
  UniqueFd reader, terminal;
  std::string shown;
  Screen() {
    int master = -1, slave = -1;
    MT_CHECK(openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
    reader = UniqueFd(master);
    terminal = UniqueFd(slave);
    termios mode = {};
    MT_CHECK(tcgetattr(slave, &mode) == 0);
    cfmakeraw(&mode);
    MT_CHECK(tcsetattr(slave, TCSANOW, &mode) == 0);
  }
  void Await(const std::string& text) {
    char bytes[200];
    while (shown.find(text) == std::string::npos) {
      const ssize_t size = read(reader.get(), bytes, sizeof bytes);
      ASSERT_GT(size, 0);
      shown.append(bytes, static_cast<size_t>(size));
    }
  }
};

TEST_F(OutputMuxTest, LinesGoToFilesAndWithAPrefixToTheConsole) {
  OutputMux mux(out_.get(), err_.get());
  const FakeWorker worker = AddWorker(mux, 3);
  ASSERT_TRUE(WriteAll(worker.out.get(), "hello\nwor").ok());
  ASSERT_TRUE(WriteAll(worker.err.get(), "oh\n").ok());
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(console_out_), "[w3]:hello\n[w3]:wor\n");
  EXPECT_EQ(support::ReadText(console_err_), "[w3]:oh\n");
  EXPECT_EQ(support::ReadText(folder_.File("out3")), "hello\nwor");
  EXPECT_EQ(support::ReadText(folder_.File("err3")), "oh\n");
}

TEST_F(OutputMuxTest, StreamsFollowTheOutputPlan) {
  OutputMux mux(out_.get(), err_.get());
  const FakeWorker worker =
      AddWorker(mux, 0, {false, true}, [](WorkerStreams& streams) { streams.files.err.clear(); });
  ASSERT_TRUE(WriteAll(worker.out.get(), "file\n").ok());
  ASSERT_TRUE(WriteAll(worker.err.get(), "console\n").ok());
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(console_out_), "");
  EXPECT_EQ(support::ReadText(folder_.File("out0")), "file\n");
  EXPECT_EQ(support::ReadText(console_err_), "[w0]:console\n");
  EXPECT_FALSE(std::ifstream(folder_.File("err0")).good());
}

TEST_F(OutputMuxTest, LinesOfSeveralWorkersAreNotInterleaved) {
  constexpr int kWorkers = 8, kLines = 400;
  {
    OutputMux mux(out_.get(), err_.get());
    std::vector<std::thread> writers;
    for (int i = 0; i < kWorkers; ++i) {
      writers.emplace_back([i, worker = AddWorker(mux, i)] {
        // Cut at odd places, so that only the splitter can reassemble the lines.
        std::string text;
        for (int line = 0; line < kLines; ++line)
          absl::StrAppend(&text, std::string(static_cast<size_t>(line % 300), static_cast<char>('a' + i)),
                          "\n");
        for (size_t at = 0; at < text.size(); at += 97)
          EXPECT_TRUE(WriteAll(worker.out.get(), text.substr(at, 97)).ok());
      });
    }
    for (std::thread& writer : writers) writer.join();
  }
  std::map<std::string, int> next;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(support::ReadText(console_out_), '\n', absl::SkipEmpty()))) {
    ASSERT_EQ(line.substr(0, 2), "[w") << line;
    const size_t worker = static_cast<size_t>(line[2] - '0');
    const int number = next[line.substr(0, 5)]++;
    EXPECT_EQ(line.substr(5),
              std::string(static_cast<size_t>(number % 300), static_cast<char>('a' + worker)));
  }
  EXPECT_EQ(next.size(), static_cast<size_t>(kWorkers));
  for (const auto& [prefix, lines] : next) EXPECT_EQ(lines, kLines) << prefix;
}

TEST_F(OutputMuxTest, TailContainsEverythingWrittenBefore) {
  OutputMux mux(out_.get(), err_.get());
  const FakeWorker worker = AddWorker(mux, 1);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(WriteAll(worker.err.get(), absl::StrCat("line ", i, "\n")).ok());
    EXPECT_THAT(mux.TailOfError(1, kPatience), testing::EndsWith(absl::StrCat("line ", i)));
  }
  EXPECT_THAT(mux.TailOfError(1, kPatience), Not(HasSubstr("line 5\n")));
}

TEST_F(OutputMuxTest, TailIsOfTheWorkerThatRunsNow) {
  OutputMux mux(out_.get(), err_.get());
  {
    const FakeWorker first = AddWorker(mux, 0);
    ASSERT_TRUE(WriteAll(first.err.get(),
                         "Traceback (most recent call last):\n"
                         "  File \"train.py\", line 1, in <module>\n"
                         "ValueError: old\n")
                    .ok());
    EXPECT_THAT(mux.TailOfError(0, kPatience), testing::EndsWith("ValueError: old"));
    EXPECT_TRUE(mux.LastTraceback(0, kPatience).has_value());
    mux.CloseAll(kPatience);
  }
  const FakeWorker second = AddWorker(mux, 0);
  EXPECT_EQ(mux.TailOfError(0, kPatience), "") << "the first one's error is not the second one's";
  EXPECT_FALSE(mux.LastTraceback(0, kPatience).has_value());
  ASSERT_TRUE(WriteAll(second.err.get(), "new\n").ok());
  EXPECT_EQ(mux.TailOfError(0, kPatience), "new");
}

/// One stream always has more to read: a large file. Both logs are one file, which shows whose turn was when.
TEST_F(OutputMuxTest, LoudWorkerDoesNotStarveTheOthers) {
  const std::string fifo = folder_.File("fifo"), loud = folder_.File("loud"), log = folder_.File("log");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETFL, 0), 0);
  std::ofstream(loud).close();
  std::filesystem::resize_file(loud, 16 << 20);
  const OutputPlan files_only = {false, false};
  OutputMux mux(out_.get(), err_.get());
  // Its log keeps the thread from reading until the others are there.
  const FakeWorker first =
      AddWorker(mux, 0, files_only, [&](WorkerStreams& streams) { streams.files.out = fifo; });
  std::string text(200'000, 'x');
  ASSERT_GT(fcntl(first.out.get(), F_SETPIPE_SZ, 1 << 20), 0);
  ASSERT_TRUE(WriteAll(first.out.get(), text).ok());
  const FakeWorker second = AddWorker(mux, 1, files_only, [&](WorkerStreams& streams) {
    streams.out = UniqueFd(open(loud.c_str(), O_RDONLY | O_CLOEXEC));
    streams.files.out = log;
  });
  const FakeWorker third =
      AddWorker(mux, 2, files_only, [&](WorkerStreams& streams) { streams.files.out = log; });
  ASSERT_TRUE(WriteAll(third.out.get(), "quiet\n").ok());
  for (size_t got = 0; got < text.size();) {
    const ssize_t size = read(reader.get(), text.data(), text.size() - got);
    ASSERT_GT(size, 0);
    got += static_cast<size_t>(size);
  }
  mux.CloseAll(kPatience);
  EXPECT_LT(support::ReadText(log).find("quiet"), size_t{4} << 20) << "of " << (16 << 20) << " bytes";
}

TEST_F(OutputMuxTest, UpdatesAreForTerminalsOnly) {
  {
    OutputMux mux(out_.get(), err_.get());
    const FakeWorker worker = AddWorker(mux, 0);
    ASSERT_TRUE(WriteAll(worker.out.get(), "10%\r20%\rdone\n").ok());
    mux.CloseAll(kPatience);
    EXPECT_EQ(support::ReadText(console_out_), "[w0]:done\n");
    EXPECT_EQ(support::ReadText(folder_.File("out0")), "10%\r20%\rdone\n");  // files get all output
  }
  Screen screen;
  OutputMux mux(screen.terminal.get(), screen.terminal.get());
  const FakeWorker worker = AddWorker(mux, 1);
  ASSERT_TRUE(WriteAll(worker.out.get(), "10%\r20%\rdone\n").ok());
  screen.Await("done\n");
  EXPECT_EQ(screen.shown, "[w1]:10%\r\r\x1b[K[w1]:20%\r\r\x1b[K[w1]:done\n");
}

TEST_F(OutputMuxTest, LinesWrapOnlyOnATerminal) {
  const std::string first(60, 'a'), second(60, 'b'), line = first + " " + second + "\n";
  const auto for_people = [](WorkerStreams& streams) { streams.breaks_lines = true; };
  {
    OutputMux mux(out_.get(), err_.get());
    const FakeWorker worker = AddWorker(mux, 0, {}, for_people);
    ASSERT_TRUE(WriteAll(worker.err.get(), line).ok());
    mux.CloseAll(kPatience);
    EXPECT_EQ(support::ReadText(console_err_), "[w0]:" + line) << "no terminal";
  }
  Screen screen;  // 80 columns
  OutputMux mux(screen.terminal.get(), screen.terminal.get());
  const FakeWorker people = AddWorker(mux, 1, {}, for_people);
  ASSERT_TRUE(WriteAll(people.err.get(), line + "end\n").ok());
  screen.Await("end\n");
  EXPECT_EQ(screen.shown, "[w1]:" + first + "\n        " + second + "\n[w1]:end\n");
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(folder_.File("err1")), line + "end\n") << "the log has it whole";
  const FakeWorker program = AddWorker(mux, 2);
  ASSERT_TRUE(WriteAll(program.err.get(), line).ok());
  screen.Await("[w2]:" + line);
}

TEST_F(OutputMuxTest, LineThatRewritesTheLastOneIsAnUpdate) {
  Screen screen;
  OutputMux mux(screen.terminal.get(), screen.terminal.get());
  const FakeWorker worker = AddWorker(mux, 1);
  ASSERT_TRUE(WriteAll(worker.out.get(), "\r10%").ok());
  screen.Await("10%\r");
  ASSERT_TRUE(WriteAll(worker.out.get(), "\r20%").ok());
  screen.Await("20%\r");
  ASSERT_TRUE(WriteAll(worker.out.get(), "\nname? ").ok());
  screen.Await("name? ");
  EXPECT_THAT(screen.shown, testing::StartsWith("[w1]:10%\r\r\x1b[K"));
  EXPECT_THAT(screen.shown, testing::EndsWith("[w1]:20%\r\r\x1b[K[w1]:20%\n[w1]:name? "));
}

TEST_F(OutputMuxTest, ThinnedUpdatesBecomeOccasionalLines) {
  OutputMux mux(out_.get(), err_.get());
  const FakeWorker worker =
      AddWorker(mux, 0, {}, [](WorkerStreams& streams) { streams.thins_updates = true; });
  ASSERT_TRUE(WriteAll(worker.out.get(), "\x1b[1mstep 1\x1b[0m\rstep 2\rstep 3\rdone\nrest").ok());
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(folder_.File("out0")), "step 1\ndone\nrest")
      << "one every 5 s, without colours";
}

TEST_F(OutputMuxTest, BlockedConsoleStopsNothing) {
  signal(SIGPIPE, SIG_IGN);  // as mtrun does
  Pipe console;              // never read
  fcntl(console.write.get(), F_SETPIPE_SZ, 4096);
  OutputMux mux(console.write.get(), err_.get());
  const FakeWorker worker = AddWorker(mux, 0);
  ASSERT_TRUE(WriteAll(worker.out.get(), std::string(30'000, 'x') + "\n").ok());
  ASSERT_TRUE(WriteAll(worker.err.get(), "last line\n").ok());
  mux.TailOfError(0, std::chrono::milliseconds(50));  // must return
  console.read.Reset();                               // now the reader is closed
  EXPECT_EQ(mux.TailOfError(0, kPatience), "last line");
  EXPECT_EQ(support::ReadText(folder_.File("out0")).size(), 30'001u);
}

TEST_F(OutputMuxTest, FilteredLinesAreKeptApart) {
  OutputMux mux(out_.get(), err_.get());
  std::vector<FakeWorker> workers;
  for (int rank : {0, 1}) {
    Pipe out, err;
    WorkerStreams streams;
    streams.local_rank = rank;
    streams.prefix = absl::StrCat("[w", rank, "]:");
    streams.out = std::move(out.read);
    streams.err = std::move(err.read);
    streams.plan = {false, true};
    streams.out_filters = {"loss", "step 7"};
    streams.files.filtered_out = folder_.File("filtered");
    EXPECT_TRUE(mux.Add(std::move(streams)).ok());
    workers.push_back({std::move(out.write), std::move(err.write)});
  }
  ASSERT_TRUE(WriteAll(workers[0].out.get(), "start\nloss 3\nstep 7\nend\n").ok());
  mux.TailOfError(0, kPatience);
  ASSERT_TRUE(WriteAll(workers[1].out.get(), "loss 4").ok());
  ASSERT_TRUE(WriteAll(workers[1].err.get(), "loss 5\n").ok());
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(folder_.File("filtered")), "[w0]:loss 3\n[w0]:step 7\n[w1]:loss 4\n");
  EXPECT_EQ(support::ReadText(console_out_), "");
}

TEST_F(OutputMuxTest, FullDiskIsReportedOnceAndStopsNothing) {
  testing::internal::CaptureStderr();
  {
    OutputMux mux(out_.get(), err_.get());
    Pipe out, err;
    WorkerStreams streams;
    streams.prefix = "[w0]:";
    streams.out = std::move(out.read);
    streams.err = std::move(err.read);
    streams.files.out = "/dev/full";
    streams.files.err = "/dev/full";
    ASSERT_TRUE(mux.Add(std::move(streams)).ok());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(WriteAll(out.write.get(), "0123456789").ok());
      ASSERT_TRUE(WriteAll(err.write.get(), "0123456789").ok());
      mux.TailOfError(0, kPatience);
    }
    mux.CloseAll(kPatience);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(support::ReadText(console_out_).size(), 5 + 50 + 1u);
  EXPECT_THAT(said, HasSubstr("/dev/full: "));
  EXPECT_THAT(said, HasSubstr("about 100 bytes of output could not be written"));
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(said, "No space left")).size(), 2u) << said;
}

TEST_F(OutputMuxTest, FilesGetEverythingAtAnyRate) {
  OutputMux mux(out_.get(), err_.get());
  constexpr int kWorkers = 4;
  constexpr size_t kBytes = 8 << 20;
  std::vector<std::thread> writers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    writers.emplace_back([worker = AddWorker(mux, rank, {false, false})] {
      const std::string block(1 << 16, 'x');
      for (size_t size = 0; size < kBytes; size += block.size())
        EXPECT_TRUE(WriteAll(worker.out.get(), block).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  mux.CloseAll(kPatience);
  for (int rank = 0; rank < kWorkers; ++rank)
    EXPECT_EQ(std::filesystem::file_size(folder_.File(absl::StrCat("out", rank))), kBytes);
}

TEST_F(OutputMuxTest, RawBytesAreUnchangedAndTheTailIsKept) {
  using std::string_literals::operator""s;
  const std::string bytes = "{\"a\": 1}\r50%\0\xff no end"s;
  {
    OutputMux mux(out_.get(), err_.get());
    FakeWorker worker = AddWorker(mux, 0, {}, [](WorkerStreams& streams) { streams.raw = true; });
    ASSERT_TRUE(WriteAll(worker.out.get(), bytes).ok());
    ASSERT_TRUE(WriteAll(worker.err.get(), "why\nit failed").ok());
    worker.out.Reset();
    worker.err.Reset();
    EXPECT_EQ(mux.TailOfError(0, kPatience), "why\nit failed");
    mux.CloseAll(kPatience);
  }
  EXPECT_EQ(support::ReadText(console_out_), bytes);
  EXPECT_EQ(support::ReadText(console_err_), "why\nit failed");
  EXPECT_EQ(support::ReadText(folder_.File("out0")), bytes);
}

TEST_F(OutputMuxTest, BoundedFileKeepsTheNewestBytes) {
  const std::string block(1000, 'x');
  {
    OutputMux mux(out_.get(), err_.get());
    FakeWorker worker = AddWorker(mux, 0, {.out = false}, [&](WorkerStreams& streams) {
      streams.files.out = folder_.File("out.log");
      streams.most_log_bytes = 400'000;
    });
    for (int i = 0; i < 3000; ++i) ASSERT_TRUE(WriteAll(worker.out.get(), block).ok());
    ASSERT_TRUE(WriteAll(worker.out.get(), "the end\n").ok());
    mux.CloseAll(kPatience);
  }
  const std::string newest = support::ReadText(folder_.File("out.log"));
  const std::string older = support::ReadText(folder_.File("out.1.log"));
  EXPECT_THAT(newest, testing::EndsWith("x"
                                        "the end\n"));
  EXPECT_GT(newest.size() + older.size(), 200'000u);
  EXPECT_LT(newest.size() + older.size(), 400'000u + 2 * (64 << 10));
}

TEST_F(OutputMuxTest, ErrorNamesAFileThatCannotBeOpened) {
  OutputMux mux(out_.get(), err_.get());
  WorkerStreams streams;
  streams.files.out = "/no/such/folder/out";
  EXPECT_THAT(std::string(mux.Add(std::move(streams)).message()), HasSubstr("/no/such/folder/out"));
}

}  // namespace
}  // namespace mtrun::launcher
