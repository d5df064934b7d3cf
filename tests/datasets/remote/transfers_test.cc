// Transfers by this machine's libcurl: answers of servers and bounds on them, and signatures (Amazon's published
// examples, "Examples: Signature calculations" of the S3 API reference).
#include "datasets/remote/transfers.h"

#include <stdlib.h>

#include <asio.hpp>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/toy_http_server.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Link = TransferEnd::Link;

/// A server, or a proxy, that sends this answer to one request and keeps the connection open.
class AnsweringServer {
 public:
  explicit AnsweringServer(std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        socket_(io_),
        thread_([this, answer = std::move(answer)] {
          acceptor_.accept(socket_);
          asio::read_until(socket_, asio::dynamic_buffer(request_), "\r\n\r\n");
          asio::write(socket_, asio::buffer(answer));
        }) {}
  ~AnsweringServer() {
    if (thread_.joinable()) thread_.join();
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port()); }
  std::string Request() {
    thread_.join();
    return request_;
  }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::socket socket_;
  std::string request_;
  std::thread thread_;
};

/// Returns the request that is sent to the examples' bucket at the examples' time.
std::string Sent(const std::string& rest_of_url,
                 const std::vector<std::pair<std::string, std::string>>& headers) {
  AnsweringServer proxy;
  setenv("http_proxy", proxy.url().c_str(), 1);
  FetchRequest request{.url = "http://examplebucket.s3.amazonaws.com" + rest_of_url, .headers = headers};
  request.headers.emplace_back("x-amz-content-sha256", Sha256Hex(""));
  request.headers.emplace_back("x-amz-date", "20130524T000000Z");
  request.s3_keys = S3Keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1"};
  Transfers transfers;
  transfers.Start(1, request, [](int64_t, std::string_view) { return absl::OkStatus(); });
  std::vector<Transfers::Ended> ended;
  std::vector<pollfd> others;
  while (ended.empty()) ended = transfers.Wait(others, std::chrono::seconds(10));
  unsetenv("http_proxy");
  EXPECT_EQ(ended.front().end.status, 200) << ended.front().end.error;
  return proxy.Request();
}

TEST(TransfersTest, SignatureMatchesS3sGetObject) {
  ASSERT_TRUE(Transfers::CheckSigning().ok());
  EXPECT_THAT(Sent("/test.txt", {{"range", "bytes=0-9"}}),
              HasSubstr("Authorization: AWS4-HMAC-SHA256 "
                        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n"));
}

TEST(TransfersTest, SignatureMatchesS3sBucketList) {
  EXPECT_THAT(Sent("/?max-keys=2&prefix=J", {}),
              HasSubstr("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7\r\n"));
}

// The expected value was calculated independently, by a script that also gives the values of the examples above.
TEST(TransfersTest, EncodedPathAndSessionTokenAreSigned) {
  EXPECT_THAT(Sent("/d%3D1/x%2By%40%C3%A9%20z/f", {{"x-amz-security-token", "session"}}),
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
                        "Signature=fa01070736b699d9ea1f8bed1e036f683e3b29be2a2ba5c770e48e567b2d5b0e\r\n"));
}

/// What a transfer did: its end, and the pieces that its sink got.
struct Done {
  TransferEnd end;
  std::map<int64_t, std::string> pieces;  // by offset; adjacent ones are joined
};

/// Requests a file from offset `from` on, of a server that answers `answer`.
Done Fetch(const std::string& answer, int64_t from = 0, const absl::Status& sink = absl::OkStatus(),
           TransferLimits limits = {}) {
  AnsweringServer server(answer);
  Done done;
  Transfers transfers(limits);
  transfers.Start(1, {.url = server.url() + "/f", .direct = true, .from = from},
                  [&](int64_t offset, std::string_view bytes) {
                    for (auto& [at, piece] : done.pieces) {
                      if (at + static_cast<int64_t>(piece.size()) != offset) continue;
                      piece.append(bytes);
                      return sink;
                    }
                    done.pieces[offset] = std::string(bytes);
                    return sink;
                  });
  std::vector<Transfers::Ended> ended;
  std::vector<pollfd> others;
  while (ended.empty()) ended = transfers.Wait(others, std::chrono::seconds(1));
  done.end = ended.front().end;
  return done;
}

std::string Answer(const std::string& status, const std::string& headers, const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", headers, "Content-Length: ", body.size(), "\r\n\r\n",
                      body);
}

TEST(TransfersTest, BodyOfAWholeFileBeginsAtZero) {
  for (const int64_t from : {0, 4}) {  // a server may ignore the range
    const Done done = Fetch(Answer("200 OK", "", "abcdefg"), from);
    EXPECT_EQ(done.end, (TransferEnd{.link = Link::kOk, .status = 200})) << done.end.error;
    EXPECT_THAT(done.pieces, ElementsAre(Pair(0, "abcdefg")));
  }
}

TEST(TransfersTest, RequestedRangeBeginsAtItsOffset) {
  const Done done = Fetch(Answer("206 Partial Content", "Content-Range: bytes 4-6/7\r\n", "efg"), 4);
  EXPECT_EQ(done.end, (TransferEnd{.link = Link::kOk, .status = 206})) << done.end.error;
  EXPECT_THAT(done.pieces, ElementsAre(Pair(4, "efg")));
}

TEST(TransfersTest, AnotherRangeIsRefused) {
  for (const char* range : {"Content-Range: bytes 0-2/7\r\n", "Content-Range: bytes 5-7/8\r\n",
                            "Content-Range: items 4-6/7\r\n", "Content-Range: bytes */7\r\n", ""}) {
    const Done done = Fetch(Answer("206 Partial Content", range, "efg"), 4);
    EXPECT_EQ(done.end.link, Link::kBroken) << range;
    EXPECT_EQ(done.end.error, "the server sent a different range of the file than requested") << range;
    EXPECT_THAT(done.pieces, IsEmpty()) << range;
  }
}

/// Headers of an earlier answer, of a proxy for example, are not the file's.
TEST(TransfersTest, HeadersOfAnEarlierAnswerAreIgnored) {
  const std::string hints =
      "HTTP/1.1 103 Early Hints\r\nContent-Range: bytes 4-6/7\r\nRetry-After: 9\r\n\r\n";
  const Done done = Fetch(hints + Answer("206 Partial Content", "", "abc"), 4);
  EXPECT_EQ(done.end.error, "the server sent a different range of the file than requested");
  EXPECT_EQ(done.end.wait_seconds, std::nullopt);
  EXPECT_THAT(done.pieces, IsEmpty());
}

TEST(TransfersTest, ErrorPageIsNotPartOfTheFile) {
  for (const int status : {401, 404, 416, 500, 503}) {
    const Done done = Fetch(Answer(absl::StrCat(status, " No"), "Retry-After: 7\r\n", "<html>no</html>"), 4);
    EXPECT_EQ(done.end, (TransferEnd{.link = Link::kOk, .status = status, .wait_seconds = 7}))
        << done.end.error;
    EXPECT_THAT(done.pieces, IsEmpty());
  }
}

TEST(TransfersTest, RedirectIsReportedAndNotFollowed) {
  const Done done = Fetch(Answer("302 Found", "Location: http://127.0.0.1:1/other\r\n", "elsewhere"));
  EXPECT_EQ(done.end,
            (TransferEnd{.link = Link::kOk, .status = 302, .location = "http://127.0.0.1:1/other"}));
  EXPECT_THAT(done.pieces, IsEmpty());
}

TEST(TransfersTest, ErrorOfTheSinkEndsTheTransfer) {
  const Done full = Fetch(Answer("200 OK", "", "abc"), 0, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(full.end.link, Link::kNotWritten);
  EXPECT_EQ(full.end.error, "the disk is full");
  const Done retried = Fetch(Answer("200 OK", "", "abc"), 0, absl::UnavailableError("try again"));
  EXPECT_EQ(retried.end.link, Link::kBroken);
  EXPECT_EQ(retried.end.error, "try again");
}

TEST(TransfersTest, SilentServerIsGivenUp) {
  const Done done = Fetch("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabc", 0, absl::OkStatus(),
                          {.least_bytes_a_second = 1000, .slow_seconds = 2});
  EXPECT_EQ(done.end.link, Link::kBroken);
  EXPECT_EQ(done.end.status, 200);
  EXPECT_THAT(done.end.error, HasSubstr("too slow"));
  EXPECT_THAT(done.pieces, ElementsAre(Pair(0, "abc")));
}

/// Returns the end of one transfer from `server`.
Transfers::Ended EndOf(const support::ToyHttpServer& server, TransferLimits limits = {}) {
  Transfers transfers(limits);
  transfers.Start(1, {.url = server.url() + "/index.json", .direct = true},
                  [](int64_t, std::string_view) { return absl::OkStatus(); });
  std::vector<Transfers::Ended> ended;
  std::vector<pollfd> others;
  while (ended.empty()) ended = transfers.Wait(others, std::chrono::seconds(10));
  return ended.front();
}

TEST(TransfersTest, EndlessErrorBodyEndsTheTransferWithItsStatus) {
  const support::ToyHttpServer server({.status = 503, .body = std::string(1024, 'x'), .repeats = true});
  const TransferEnd end = EndOf(server).end;
  EXPECT_EQ(end, (TransferEnd{.status = 503})) << end.error;
  EXPECT_LT(server.sent(), 8 << 20) << "the kernel's buffers";
}

TEST(TransfersTest, SlowErrorBodyDoesNotHideTheStatus) {
  const support::ToyHttpServer server(
      {.status = 403, .body = "no", .repeats = true, .pause = std::chrono::seconds(1)});
  EXPECT_EQ(EndOf(server, {.least_bytes_a_second = 1000, .slow_seconds = 2}).end,
            (TransferEnd{.status = 403}));
}

TEST(TransfersTest, TransferOfTwoBytesASecondEnds) {
  const support::ToyHttpServer server({.body = "{}", .repeats = true, .pause = std::chrono::seconds(1)});
  const TransferEnd end = EndOf(server, {.least_bytes_a_second = 1000, .slow_seconds = 2}).end;
  EXPECT_EQ(end.link, TransferEnd::Link::kBroken);
  EXPECT_THAT(end.error, HasSubstr("Less than 1000 bytes/sec"));
}

TEST(TransfersTest, ReceivedBytesAreCountedDuringTheTransfer) {
  const support::ToyHttpServer server(
      {.body = "{}", .repeats = true, .pause = std::chrono::milliseconds(10)});
  Transfers transfers;
  EXPECT_EQ(transfers.Received(1), 0) << "it does not exist";
  transfers.Start(1, {.url = server.url() + "/index.json", .direct = true},
                  [](int64_t, std::string_view) { return absl::OkStatus(); });
  std::vector<pollfd> others;
  while (transfers.Received(1) < 6) EXPECT_TRUE(transfers.Wait(others, std::chrono::seconds(1)).empty());
}

}  // namespace
}  // namespace mtrun::datasets
