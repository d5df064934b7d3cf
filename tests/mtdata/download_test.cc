#include "mtdata/download.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtdata/stop_signal.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"
#include "tests/support/status.h"
#include "tests/support/sync_log.h"
#include "tests/support/toy_http_server.h"

namespace mtrun::mtdata {
namespace {

using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

/// Serves a text, or the part of it that a request asks for, or 416. Keeps the requested offsets.
class RangeServer {
 public:
  explicit RangeServer(std::string text)
      : text_(std::move(text)), acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this] {
          for (std::error_code error;;) {
            asio::ip::tcp::socket client(io_);
            acceptor_.accept(client, error);
            if (error) return;
            std::string request;
            asio::read_until(client, asio::dynamic_buffer(request), "\r\n\r\n", error);
            asio::write(client, asio::buffer(Answer(request)), error);
          }
        }) {}
  ~RangeServer() { Stop(); }

  std::string url() const {
    return absl::StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port(), "/f");
  }
  std::vector<size_t> Offsets() {
    Stop();
    return offsets_;
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

  std::string Answer(const std::string& request) {
    const size_t range = request.find("bytes=");
    const size_t from = range == std::string::npos ? 0 : std::stoul(request.substr(range + 6));
    offsets_.push_back(from);
    const std::string end = "Connection: close\r\n\r\n";
    if (from >= text_.size()) return "HTTP/1.1 416 No\r\nContent-Length: 0\r\n" + end;
    const std::string rest = text_.substr(from);
    const std::string head = from == 0 ? "HTTP/1.1 200 OK\r\n"
                                       : absl::StrCat("HTTP/1.1 206 Part\r\nContent-Range: bytes ", from, "-",
                                                      text_.size() - 1, "/", text_.size(), "\r\n");
    return absl::StrCat(head, "Content-Length: ", rest.size(), "\r\n", end, rest);
  }

  const std::string text_;
  std::vector<size_t> offsets_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::thread thread_;
};

class DownloadTest : public testing::Test {
 protected:
  Download Of(const std::string& url) const { return {url, path_, Sha256Hex(kText).substr(0, 8)}; }
  static absl::Status Ignore(int64_t, const std::string&) { return absl::OkStatus(); }
  std::string Placed() const { return ReadFile(path_).value_or("none"); }
  static void Expect(const absl::Status& fetched) { EXPECT_TRUE(fetched.ok()) << fetched; }
  void WritePart(const std::string& text) const {
    std::filesystem::create_directories(folder_.File("hub"));
    support::WriteText(path_ + ".part", text);
  }
  bool HasPart() const { return std::filesystem::exists(path_ + ".part"); }

  static constexpr char kText[] = "the weights of a network";
  const support::TemporaryFolder folder_;
  const std::string path_ = folder_.File("hub/w.pth");
};

TEST_F(DownloadTest, WholeFileIsPlaced) {
  RangeServer server(kText);
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_EQ(Placed(), kText);
  EXPECT_FALSE(HasPart());
}

TEST_F(DownloadTest, FileIsOnTheDiskBeforeItHasItsName) {
  RangeServer server(kText);
  support::SyncLog log(folder_.path());
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_THAT(log.Take(), ElementsAre("hub/w.pth.part", "hub"));
}

TEST_F(DownloadTest, PartIsContinued) {
  WritePart(std::string(kText, 11));
  RangeServer server(kText);
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_EQ(Placed(), kText);
  EXPECT_THAT(server.Offsets(), ElementsAre(11));
}

TEST_F(DownloadTest, DamagedPartIsFetchedAgain) {
  WritePart("THE WEIGHTS");
  RangeServer server(kText);
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_EQ(Placed(), kText);
  EXPECT_THAT(server.Offsets(), ElementsAre(11, 0));
}

TEST_F(DownloadTest, CompletePartIsPlaced) {
  WritePart(kText);
  RangeServer server(kText);
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_EQ(Placed(), kText);
}

TEST_F(DownloadTest, LongerPartIsFetchedAgain) {
  WritePart(std::string(kText) + " and more");
  RangeServer server(kText);
  Expect(FetchFile(Of(server.url()), Ignore));
  EXPECT_EQ(Placed(), kText);
}

TEST_F(DownloadTest, ServerWithoutRangesBeginsAgain) {
  WritePart(std::string(kText, 11));
  const support::ToyHttpServer server({.body = kText});
  Expect(FetchFile(Of(server.url() + "/f"), Ignore));
  EXPECT_EQ(Placed(), kText);
}

TEST_F(DownloadTest, AnotherFileIsRefused) {
  const support::ToyHttpServer server({.body = "something else"});
  EXPECT_THAT(FetchFile(Of(server.url() + "/f"), Ignore),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(", but must begin with " + Of("").digits)));
  EXPECT_EQ(Placed(), "none");
  EXPECT_EQ(*ReadFile(path_ + ".part"), "");
}

TEST_F(DownloadTest, MissingFileIsNamed) {
  const support::ToyHttpServer server({.status = 404});
  EXPECT_THAT(FetchFile(Of(server.url() + "/f"), Ignore),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("/f: the server answers HTTP 404")));
  EXPECT_EQ(Placed(), "none");
}

TEST_F(DownloadTest, BusyServerIsAskedAgainUntilTheWatcherEnds) {
  const support::ToyHttpServer server({.status = 503});
  std::vector<std::string> troubles;
  const absl::Status fetched = FetchFile(Of(server.url() + "/f"), [&](int64_t, const std::string& trouble) {
    if (!trouble.empty()) troubles.push_back(trouble);
    return server.requests() < 3 ? absl::OkStatus() : absl::CancelledError("enough");
  });
  EXPECT_THAT(fetched, StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  ASSERT_FALSE(troubles.empty());
  EXPECT_THAT(troubles.front(), HasSubstr("answers HTTP 503"));
}

TEST_F(DownloadTest, PartOfAnotherProcessIsLeftAlone) {
  WritePart("theirs");
  const UniqueFd other(open((path_ + ".part").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  EXPECT_THAT(FetchFile(Of("http://127.0.0.1:1/f"), Ignore),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process is writing ")));
}

TEST_F(DownloadTest, FullDiskNamesTheFile) {
  const auto disk = support::SmallDisk::Make(folder_.File("hub"), 1 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  (*disk)->Fill();
  const support::ToyHttpServer server({.body = kText});
  EXPECT_THAT(FetchFile(Of(server.url() + "/f"), Ignore),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(path_ + ".part: ")));
  (*disk)->Free();
  Expect(FetchFile(Of(server.url() + "/f"), Ignore));
  EXPECT_EQ(Placed(), kText);
}

TEST_F(DownloadTest, LinkIsNotFollowed) {
  support::WriteText(folder_.File("victim"), "precious");
  std::filesystem::create_directories(folder_.File("hub"));
  std::filesystem::create_symlink(folder_.File("victim"), path_ + ".part");
  EXPECT_THAT(FetchFile(Of("http://127.0.0.1:1/f"), Ignore),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("symbolic links")));
  EXPECT_EQ(*ReadFile(folder_.File("victim")), "precious");
}

TEST(StopSignalDeathTest, EachSignalEndsADownloadWithItsStatus) {
  EXPECT_TRUE(CheckNotStopped().ok());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          StopAtSignals();
          raise(signal);
          _exit(ComplainOfDownload(CheckNotStopped()));
        },
        testing::ExitedWithCode(128 + signal), "stopped; the data fetched so far is kept");
  }
}

// ---- mtdata weights ----

class WeightsCommandTest : public DownloadTest {
 protected:
  int Run(const std::vector<std::string>& args) {
    support::Overlay environment = mark_.overlay();
    environment["TORCH_HOME"] = folder_.path();
    support::Program program(support::Joined({support::BinaryFolder() + "/mtdata", "weights"}, args),
                             environment);
    const int status = program.Wait().value_or(-1);
    text_ = program.Text();
    return status;
  }

  support::Mark mark_;
  std::string text_;
};

TEST_F(WeightsCommandTest, FileThatIsThereIsPrinted) {
  std::filesystem::create_directories(folder_.File("hub/checkpoints"));
  support::WriteText(folder_.File("hub/checkpoints/resnet18-f37072fd.pth"), "weights");
  EXPECT_EQ(Run({"resnet18"}), 0) << text_;
  EXPECT_THAT(text_, HasSubstr(folder_.File("hub/checkpoints/resnet18-f37072fd.pth\n")));
}

TEST_F(WeightsCommandTest, AnotherFileIsNotTaken) {
  const support::ToyHttpServer server({.body = kText});
  EXPECT_EQ(Run({"resnet18", "--mirror", server.url()}), 1) << text_;
  EXPECT_THAT(text_, HasSubstr("/resnet18-f37072fd.pth: its SHA-256 is " + Sha256Hex(kText) +
                               ", but must begin with f37072fd"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("hub/checkpoints/resnet18-f37072fd.pth")));
}

TEST_F(WeightsCommandTest, WrongWordsAreRefused) {
  EXPECT_EQ(Run({"vit"}), 2);
  EXPECT_THAT(text_, HasSubstr("only of resnet18, resnet34, resnet50"));
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(text_, HasSubstr("mtdata weights resnet18"));
  EXPECT_EQ(Run({"resnet18", "--mirror", "http://example.org/models"}), 2);
  EXPECT_THAT(text_, HasSubstr("--mirror"));
}

}  // namespace
}  // namespace mtrun::mtdata
