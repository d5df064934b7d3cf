// Streaming responses, over real connections.
#include <algorithm>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"
#include "tests/web/held_replies.h"
#include "web/http_server.h"

namespace mtrun::web {
namespace {

using support::TcpClient;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr char kGetLive[] = "GET /live HTTP/1.1\r\nHost: x\r\n\r\n";

class LiveTest : public testing::Test {
 protected:
  LiveTest() {
    auto server = HttpServer::Start("127.0.0.1", 0, {.routes = {{"GET", "/live", held_.handler()}}});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<LiveBody> AnswerLive() {
    auto body = std::make_shared<LiveBody>();
    held_.Next().second({.content_type = "text/event-stream", .live = body});
    return body;
  }
  static void AwaitGone(const LiveBody& body) {
    while (!body.gone()) std::this_thread::yield();  // bounded by the test's time limit
  }

  HeldReplies held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(LiveTest, PiecesArriveAsTheyAreSetUntilTheEnd) {
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto body = AnswerLive();
  body->Set("data: 1\n\n");
  EXPECT_TRUE(client.Hears(support::Seconds(30)));
  body->Set("data: 2\n\n");
  body->End();
  EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("Content-Type: text/event-stream\r\n"),
                                      Not(HasSubstr("Content-Length")), EndsWith("data: 2\n\n")));
  AwaitGone(*body);
}

TEST_F(LiveTest, ClientCanWaitPastTheReadTimeout) {
  const Limits limits = {.send_patience = std::chrono::milliseconds(20)};
  auto server =
      HttpServer::Start("127.0.0.1", 0, {.routes = {{"GET", "/live", held_.handler()}}, .limits = limits});
  ASSERT_TRUE(server.ok()) << server.status();
  TcpClient client((*server)->port());
  client.Send(kGetLive);
  const auto body = AnswerLive();
  for (const char* text : {"1", "2", "3"}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    body->Set(text);
  }
  EXPECT_FALSE(body->gone());
  body->End();
  EXPECT_THAT(client.ReadAll(), EndsWith("3"));
}

TEST_F(LiveTest, DisconnectIsDetectedAlthoughNothingIsSent) {
  std::shared_ptr<LiveBody> body;
  {
    TcpClient client(server_->port());
    client.Send(kGetLive);
    body = AnswerLive();
    body->Set("data: 1\n\n");
    EXPECT_TRUE(client.Hears(support::Seconds(30)));
  }
  AwaitGone(*body);
}

TEST_F(LiveTest, BodyOutlivesItsServer) {
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto body = AnswerLive();
  body->Set("x");
  EXPECT_TRUE(client.Hears(support::Seconds(30)));
  server_.reset();
  EXPECT_TRUE(body->gone());
  body->Set("for nobody");
}

TEST_F(LiveTest, SlowClientGetsOnlyTheNewest) {
  constexpr size_t kSize = 16 << 20;  // more than the kernel buffers for a client that does not read
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto body = AnswerLive();
  for (const char c : {'a', 'b', 'c', 'd'}) {
    body->Set(std::string(kSize, c));
    EXPECT_TRUE(client.Hears(support::Seconds(30)));
  }
  body->End();
  const std::string all = client.ReadAll();
  EXPECT_LT(all.size(), 3 * kSize);
  EXPECT_EQ(std::count(all.begin(), all.end(), 'd'), static_cast<int64_t>(kSize));
  EXPECT_EQ(all.back(), 'd');
}

TEST_F(LiveTest, FinishDoesNotWaitForLiveBodies) {
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto body = AnswerLive();
  body->Set("data: 1\n\n");
  EXPECT_TRUE(client.Hears(support::Seconds(30)));
  EXPECT_TRUE(server_->Finish(std::chrono::minutes(1)));
  EXPECT_TRUE(body->gone());
}

TEST_F(LiveTest, InvalidResponseReleasesTheBodyAtOnce) {
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto body = std::make_shared<LiveBody>();
  held_.Next().second({.content_type = "a\nb", .live = body});
  EXPECT_THAT(client.ReadAll(), HasSubstr("HTTP/1.1 500 "));
  EXPECT_TRUE(body->gone());
}

TEST_F(LiveTest, BodyWithoutAReaderIsReleasedAtOnce) {
  {
    TcpClient client(server_->port());
    client.Send("HEAD /live HTTP/1.1\r\n\r\n");
    AwaitGone(*AnswerLive());
  }
  TcpClient client(server_->port());
  client.Send(kGetLive);
  const auto [request, reply] = held_.Next();
  reply({.body = "first"});
  const auto second = std::make_shared<LiveBody>();
  reply({.live = second});
  AwaitGone(*second);
}

}  // namespace
}  // namespace mtrun::web
