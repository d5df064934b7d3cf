// Who is not let in, and what happens where the other end is no end of a session at all.
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "rendezvous/status_client.h"
#include "tests/rendezvous/session/session_fixture.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, TlsWithOneTokenWorks) {
  StartService(false);
  SessionOptions options = Options(1, 1);
  options.insecure = false;
  options.token = support::kToken;
  TestAgent a("node1", options);
  a.Offer();
  EXPECT_EQ(a.NextGeneration().number, 1u);
}

TEST_F(SessionTest, AnotherTokenIsRefusedWithOneSentence) {
  StartService(false);
  SessionOptions options = Options(1, 1);
  options.insecure = false;
  options.token = support::kOtherToken;
  TestAgent a("node1", options);
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_TRUE(absl::IsUnauthenticated(*failure));
  EXPECT_THAT(std::string(failure->message()), HasSubstr("has another token"));
}

TEST_F(SessionTest, PlainTextAgainstTlsIsRefused) {
  StartService(false);
  TestAgent a("node1", Options(1, 1));
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(std::string(failure->message()), HasSubstr("expects TLS"));
}

TEST_F(SessionTest, TlsAgainstPlainTextIsRefused) {
  StartService(true);
  SessionOptions options = Options(1, 1);
  options.insecure = false;
  options.token = support::kToken;
  TestAgent a("node1", options);
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(std::string(failure->message()), HasSubstr("without TLS"));
}

void SendGarbage(int port, const std::string& bytes) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  (void)send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // the service may hang up in between
}

TEST_F(SessionTest, GarbageOnThePortDoesNoHarm) {
  for (const bool insecure : {true, false}) {
    StartService(insecure);
    std::mt19937_64 random(1);
    for (int i = 0; i < 50; ++i) {
      std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
      for (uint64_t length = random() % 3000; length > 0; --length) bytes += static_cast<char>(random());
      SendGarbage(port_, bytes);
    }
    SessionOptions options = Options(1, 1);
    options.insecure = insecure;
    options.token = support::kToken;
    TestAgent a("node1", options);
    a.Offer();
    EXPECT_EQ(a.NextGeneration().number, 1u);
    a.Kill();
    service_.reset();
  }
}

/// A program that listens where people look for the service, and answers like a web server.
class Stranger {
 public:
  Stranger() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Stranger() {
    shutdown(listener_.get(), SHUT_RDWR);  // ends accept()
    thread_.join();
  }
  int port() const { return port_; }

 private:
  void Serve() {
    static constexpr std::string_view kAnswer = "HTTP/1.0 400 Bad Request\r\n\r\n";
    while (true) {
      const UniqueFd caller(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (caller.get() < 0) return;
      (void)send(caller.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    }
  }

  const UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

TEST(StatusTest, AnotherProgramAtThePortIsNamed) {
  const Stranger stranger;
  const absl::Status status =
      AskForStatus(absl::StrCat("127.0.0.1:", stranger.port()), {.insecure = true}).status();
  EXPECT_THAT(status.message(), HasSubstr("another program listens there"));
}

}  // namespace
}  // namespace mtrun::rendezvous
