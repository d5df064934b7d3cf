// The end of OutputMux: streams of a generation, of the job, and streams that outlive both.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/launcher/output/output_mux_fixture.h"

namespace mtrun::launcher {
namespace {

using OutputMuxEndTest = OutputMuxTest;

/// Regression: a blocked file delayed a generation's end, which then closed the streams of the next one's
/// workers: they died of SIGPIPE.
TEST_F(OutputMuxEndTest, LateCloseDoesNotCloseNewerStreams) {
  signal(SIGPIPE, SIG_IGN);
  const std::string fifo = folder_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETFL, 0), 0);
  OutputMux mux(out_.get(), err_.get());
  const OutputPlan files_only = {false, false};
  const FakeWorker first =
      AddWorker(mux, 0, files_only, [&](WorkerStreams& streams) { streams.files.out = fifo; });
  const std::string text(200'000, 'x');
  ASSERT_GT(fcntl(first.out.get(), F_SETPIPE_SZ, 1 << 20), 0);
  ASSERT_TRUE(WriteAll(first.out.get(), text).ok());
  mux.CloseAll(std::chrono::milliseconds(50));
  const FakeWorker second = AddWorker(mux, 1, files_only);
  std::string carried(text.size(), '\0');
  for (size_t got = 0; got < text.size();) {
    const ssize_t size = read(reader.get(), carried.data() + got, text.size() - got);
    ASSERT_GT(size, 0);
    got += static_cast<size_t>(size);
  }
  EXPECT_TRUE(carried == text);
  mux.TailOfError(1, kPatience);  // the close has been processed by then
  EXPECT_FALSE(WriteAll(first.out.get(), "late").ok());
  EXPECT_TRUE(WriteAll(second.out.get(), "next\n").ok());
  mux.CloseAll(kPatience);
  EXPECT_EQ(support::ReadText(folder_.File("out1")), "next\n");
}

TEST_F(OutputMuxEndTest, StreamThatLivesOnIsNotClosedWithAGeneration) {
  signal(SIGPIPE, SIG_IGN);
  OutputMux mux(out_.get(), err_.get());
  const FakeWorker helper = AddWorker(mux, -1, {}, [](WorkerStreams& streams) { streams.lives_on = true; });
  const FakeWorker worker = AddWorker(mux, 0);
  mux.CloseAll(kPatience);
  EXPECT_FALSE(WriteAll(worker.out.get(), "late").ok());
  EXPECT_FALSE(WriteAll(worker.err.get(), "late").ok()) << "the stream that was added last";
  EXPECT_TRUE(WriteAll(helper.out.get(), "still here\n").ok());
  EXPECT_TRUE(WriteAll(helper.err.get(), "and here\n").ok());
  EXPECT_EQ(mux.TailOfError(-1, kPatience), "and here");
  EXPECT_EQ(support::ReadText(folder_.File("out-1")), "still here\n");
}

TEST_F(OutputMuxEndTest, HandedOffStreamIsStillForwarded) {
  FakeWorker worker;
  {
    OutputMux mux(out_.get(), err_.get());
    worker = AddWorker(mux, 0);
    ASSERT_TRUE(WriteAll(worker.out.get(), "before\n").ok());
    mux.HandOff(kPatience);
  }
  ASSERT_TRUE(WriteAll(worker.out.get(), "after\n").ok());
  worker.out.Reset();
  worker.err.Reset();
  int status = -1;
  EXPECT_GT(waitpid(-1, &status, 0), 0);  // the forwarding process
  EXPECT_EQ(status, 0);
  EXPECT_EQ(support::ReadText(folder_.File("out0")), "before\nafter\n");
}

/// Processes that outlive the job outlive its terminal, too.
TEST_F(OutputMuxEndTest, HandedOffStreamOutlivesAHangup) {
  signal(SIGPIPE, SIG_IGN);
  const std::string fifo = folder_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(fcntl(reader.get(), F_SETFL, 0), 0);
  FakeWorker worker;
  {
    OutputMux mux(out_.get(), err_.get());
    worker = AddWorker(mux, 0, {false, false}, [&](WorkerStreams& streams) { streams.files.out = fifo; });
    mux.HandOff(kPatience);
  }
  const auto forwarded = [&](const std::string& text) {
    EXPECT_TRUE(WriteAll(worker.out.get(), text).ok()) << text;
    std::string got;
    char byte = 0;
    while (got.size() < text.size() && read(reader.get(), &byte, 1) == 1) got += byte;
    return got;
  };
  ASSERT_EQ(forwarded("before"), "before");
  pid_t carrier = 0;
  std::ifstream("/proc/thread-self/children") >> carrier;
  ASSERT_GT(carrier, 0);
  ASSERT_EQ(kill(carrier, SIGHUP), 0);
  EXPECT_EQ(forwarded("after"), "after");
  worker.out.Reset();
  worker.err.Reset();
  int status = -1;
  EXPECT_EQ(waitpid(carrier, &status, 0), carrier);
  EXPECT_EQ(status, 0);
}

TEST_F(OutputMuxEndTest, SlowConsoleGetsEverythingAtTheEnd) {
  signal(SIGPIPE, SIG_IGN);
  Pipe console;
  std::string shown;
  std::thread reader([&] {
    std::string bytes(64 << 10, '\0');
    int reads = 0;
    for (ssize_t size; (size = read(console.read.get(), bytes.data(), bytes.size())) > 0;) {
      shown.append(bytes, 0, static_cast<size_t>(size));
      if (++reads < 20) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  const std::string text(Console::kQueueBytes + 900'000, 'x');
  FakeWorker worker;
  {
    OutputMux mux(console.write.get(), err_.get());
    worker = AddWorker(mux, 0, {}, [](WorkerStreams& streams) { streams.raw = true; });
    ASSERT_GT(fcntl(worker.out.get(), F_SETPIPE_SZ, 1 << 20), 0);
    ASSERT_TRUE(WriteAll(worker.out.get(), text).ok());
    mux.HandOff(std::chrono::seconds(1));
  }
  EXPECT_TRUE(WriteAll(worker.out.get(), "after\n").ok());
  worker.out.Reset();
  worker.err.Reset();
  EXPECT_GT(waitpid(-1, nullptr, 0), 0);  // the forwarding process
  console.write.Reset();
  reader.join();
  EXPECT_EQ(shown.size(), text.size());
  EXPECT_EQ(support::ReadText(folder_.File("out0")).size(), text.size() + 6);
}

}  // namespace
}  // namespace mtrun::launcher
