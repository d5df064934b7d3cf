#include "web/http_server.h"

#include <fcntl.h>

#include <filesystem>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tcp_client.h"
#include "tests/web/held_replies.h"

namespace mtrun::web {
namespace {

using support::Ask;
using support::TcpClient;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kGetPage[] = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kHoldRequest[] = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";

void Echo(const Request& request, const Reply& reply) {
  const auto kind = request.headers.find("content-type");
  reply({.body = request.method + " " + request.path + "?" + request.query + " " +
                 (kind == request.headers.end() ? "" : kind->second) + " " + request.body});
}

// Long enough for a loaded machine.
constexpr Limits kPatient = {.request_patience = std::chrono::minutes(1),
                             .handler_patience = std::chrono::minutes(1)};

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { Restart(kPatient); }

  void Restart(const Limits& limits) {
    auto server = HttpServer::Start(
        "", 0,
        {.routes = {{"GET", "/page", Echo},
                    {"POST", "/page", Echo},
                    {"GET", "/hold", held_.handler()},
                    {"GET", "/large",
                     [](const Request&, const Reply& reply) { reply({.body = std::string(4 << 20, 'x')}); }}},
         .limits = limits});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string AskServer(const std::string& request) { return Ask(server_->port(), request); }

  HeldReplies held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestReachesItsHandler) {
  EXPECT_THAT(AskServer("GET /page?x=1 HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\nGET /page?x=1  "));
  EXPECT_THAT(
      AskServer("POST /page HTTP/1.1\r\nHost: x\r\nCONTENT-type: text/a\r\nContent-Length: 4\r\n\r\nbody"),
      EndsWith("\r\n\r\nPOST /page? text/a body"));
  EXPECT_THAT(
      AskServer("POST /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"),
      EndsWith("\r\n\r\nPOST /page?  body"));
}

TEST_F(HttpServerTest, RequestHasItsPeersAddress) {
  const TcpClient one(server_->port()), other(server_->port(), "127.0.0.2"), again(server_->port());
  std::vector<std::string> peers;
  for (const TcpClient* client : {&one, &other, &again}) {
    client->Send(kHoldRequest);
    peers.push_back(held_.Next().first.peer);
  }
  EXPECT_NE(peers[0], "");
  EXPECT_NE(peers[0], peers[1]);
  EXPECT_EQ(peers[0], peers[2]);
}

TEST_F(HttpServerTest, HeadGetsNoBody) {
  const std::string reply = AskServer("HEAD /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Length: 13\r\n"));  // "HEAD /page?  "
  EXPECT_THAT(reply, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, UnservedRequestIsRefused) {
  EXPECT_THAT(AskServer("GET /nowhere HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  const std::string refused = AskServer("BREW /page HTTP/1.1\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(refused, HasSubstr("\r\nAllow: GET, HEAD, POST\r\n"));
}

TEST_F(HttpServerTest, LargeAnswerArrivesWhole) {
  const std::string reply = AskServer("GET /large HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reply.size() - reply.find("\r\n\r\n") - 4, size_t{4} << 20);
}

TEST_F(HttpServerTest, ReplyCanComeFromAnyThreadAndOnlyTheFirstCounts) {
  const TcpClient client(server_->port());
  client.Send(kHoldRequest);
  const Reply reply = held_.Next().second;
  std::thread([&] {
    reply({.body = "first"});
    reply({.body = "second"});
  }).join();
  EXPECT_THAT(client.ReadAll(), EndsWith("\r\n\r\nfirst"));
  reply({.body = "late"});
  EXPECT_THAT(AskServer(kGetPage), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, OtherRequestsDoNotWaitForAHandler) {
  const TcpClient client(server_->port());
  client.Send(kHoldRequest);
  const Reply reply = held_.Next().second;
  EXPECT_THAT(AskServer(kGetPage), StartsWith("HTTP/1.1 200 OK\r\n"));
  reply({.body = "done"});
  EXPECT_THAT(client.ReadAll(), EndsWith("\r\n\r\ndone"));
}

TEST_F(HttpServerTest, HandlerThatNeverRepliesIsA503) {
  Restart({.handler_patience = std::chrono::milliseconds(50)});
  EXPECT_THAT(AskServer(kHoldRequest), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  held_.Next().second({.body = "late"});
  EXPECT_THAT(AskServer(kGetPage), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, DisconnectedClientIsNotAnswered) {
  {
    const TcpClient client(server_->port());
    client.Send(kHoldRequest);
  }
  held_.Next().second({.body = std::string(1 << 20, 'x')});
  EXPECT_THAT(AskServer(kGetPage), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, EndsWithOpenConnectionsAndPendingHandlers) {
  const TcpClient silent(server_->port()), half(server_->port()), waiting(server_->port()),
      reader(server_->port());
  half.Send("GET /pa");
  reader.Send("GET /large HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(reader.Hears(support::kPatience));
  waiting.Send(kHoldRequest);
  const Reply reply = held_.Next().second;
  server_.reset();
  reply({.body = "late"});
  for (const TcpClient* client : {&silent, &half, &waiting}) EXPECT_EQ(client->ReadAll(), "");
}

TEST_F(HttpServerTest, EndsWhileOtherThreadsReply) {
  for (int round = 0; round < 50; ++round) {
    std::vector<TcpClient> clients;
    std::vector<Reply> replies;
    for (int i = 0; i < 8; ++i) clients.emplace_back(server_->port()).Send(kHoldRequest);
    for (int i = 0; i < 8; ++i) replies.push_back(held_.Next().second);
    std::thread other([&] {
      for (const Reply& reply : replies) reply({.body = "x"});
    });
    server_.reset();
    other.join();
    Restart(kPatient);
  }
}

std::set<std::string> Descriptors() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) found.insert(entry.path());
  return found;
}

TEST_F(HttpServerTest, DescriptorsAreNotInherited) {
  server_.reset();
  const std::set<std::string> before = Descriptors();
  Restart(kPatient);
  const TcpClient client(server_->port());
  client.Send(kHoldRequest);
  held_.Next();  // now the connection is accepted
  int more = 0;
  for (const std::string& path : Descriptors()) {
    const int flags = fcntl(std::stoi(path.substr(path.rfind('/') + 1)), F_GETFD);
    if (before.count(path) != 0 || flags < 0) continue;  // the last one is the folder's own, closed by now
    EXPECT_TRUE(flags & FD_CLOEXEC) << path << " is " << std::filesystem::read_symlink(path);
    ++more;
  }
  EXPECT_GE(more, 3);  // the listening socket and both ends of the connection
}

TEST(HttpServerStartTest, ErrorNamesAPortInUse) {
  const auto first = HttpServer::Start("", 0, {});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = HttpServer::Start("", (*first)->port(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(std::to_string((*first)->port())));
}

}  // namespace
}  // namespace mtrun::web
