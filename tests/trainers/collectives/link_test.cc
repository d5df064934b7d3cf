#include "trainers/collectives/link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/support/status.h"

namespace mtrun::collectives {
namespace {

using support::StatusIs;
using ::testing::HasSubstr;

constexpr auto kUnauthenticated = absl::StatusCode::kUnauthenticated;

// Rank 3 dials rank 1 over a pair of Unix sockets.
struct Couple {
  Link::Secret dialer_secret = {.key = "key", .generation = "1.a"};
  Link::Secret acceptor_secret = dialer_secret;
  UniqueFd dialer_segment{memfd_create("dialer", MFD_CLOEXEC)};
  UniqueFd acceptor_segment{memfd_create("acceptor", MFD_CLOEXEC)};
  std::optional<Link> dialer, acceptor;

  void Open(int acceptor_rank = 1) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    dialer = Link::Dialed(UniqueFd(ends[0]), dialer_secret, 3, 1, Purpose::kControl);
    dialer->set_local(true);
    acceptor = Link::Accepted(UniqueFd(ends[1]), acceptor_secret, acceptor_rank, true);
  }
  absl::Status AdvanceBoth() {
    for (int turn = 0; turn < 4; ++turn) {
      if (absl::Status status = dialer->Advance(dialer_segment.get()); !status.ok()) return status;
      if (dialer->state() == Link::State::kVerified) {
        if (absl::Status status = dialer->Confirm(dialer_segment.get()); !status.ok()) return status;
      }
      if (absl::Status status = acceptor->Advance(acceptor_segment.get()); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

ino_t Inode(int fd) {
  struct stat status = {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return status.st_ino;
}

TEST(LinkTest, BothSidesProveThemselvesAndExchangeSegments) {
  Couple couple;
  couple.Open();
  ASSERT_TRUE(couple.AdvanceBoth().ok());
  EXPECT_EQ(couple.dialer->state(), Link::State::kDone);
  EXPECT_EQ(couple.acceptor->state(), Link::State::kDone);
  EXPECT_EQ(couple.acceptor->peer(), 3);
  EXPECT_EQ(couple.acceptor->purpose(), Purpose::kControl);
  EXPECT_EQ(Inode(couple.acceptor->TakeSegment().get()), Inode(couple.dialer_segment.get()));
  EXPECT_EQ(Inode(couple.dialer->TakeSegment().get()), Inode(couple.acceptor_segment.get()));
}

TEST(LinkTest, AnotherKeyIsRefused) {
  Couple couple;
  couple.acceptor_secret.key = "another key";
  couple.Open();
  EXPECT_THAT(couple.AdvanceBoth(), StatusIs(kUnauthenticated, HasSubstr("the peer that answered")));
  EXPECT_NE(couple.dialer->state(), Link::State::kVerified);
}

TEST(LinkTest, AnotherGenerationIsRefused) {
  Couple couple;
  couple.dialer_secret.generation = "0.a";  // a frozen rank that woke up
  couple.Open();
  EXPECT_THAT(couple.AdvanceBoth(), StatusIs(kUnauthenticated, HasSubstr("the peer that answered")));
}

TEST(LinkTest, ConnectionMeantForAnotherRankIsRefused) {
  Couple couple;
  couple.Open(2);
  EXPECT_THAT(couple.AdvanceBoth(), StatusIs(kUnauthenticated, HasSubstr("meant for another rank")));
}

/// Sends `bytes`, and with the first one these descriptors. Returns whether all were sent.
bool SendWith(int socket, std::string bytes, const std::vector<int>& descriptors) {
  iovec part = {bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const size_t passed = descriptors.size() * sizeof(int);
  if (passed > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(passed);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(passed);
    std::memcpy(CMSG_DATA(header), descriptors.data(), passed);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::string Receive(int socket, size_t count) {
  std::string bytes(count, '\0');
  EXPECT_EQ(recv(socket, bytes.data(), count, MSG_DONTWAIT), static_cast<ssize_t>(count));
  return bytes;
}

constexpr size_t kHelloBytes = 33, kNonceBytes = 16, kMacBytes = 32;

/// A proof that a test computes itself.
struct Proof {
  const char* what;
  Link::Secret secret;
  bool of_other_role;

  /// `dialer`: the sender's role. `greeting`: the Hello and the acceptor's nonce.
  std::string Mac(bool dialer, const std::string& greeting) const {
    const char* const role = dialer != of_other_role ? "dial" : "accept";
    return HmacSha256(secret.key, absl::StrCat(role, "\n", secret.generation, "\n", greeting));
  }
};
const Proof kRight = {"right", {.key = "key", .generation = "1.a"}, false};
/// All else of a greeting with one of these is right, so only the check of the proof refuses it.
const Proof kForged[] = {{"of another key", {.key = "another key", .generation = "1.a"}, false},
                         {"without a key", {.key = "", .generation = "1.a"}, false},
                         {"of another generation", {.key = "key", .generation = "0.a"}, false},
                         {"reflected", {.key = "key", .generation = "1.a"}, true}};

/// Dials an acceptor by hand. Returns its answer to the proof, which carries a segment if `with_segment`.
absl::Status Prove(const Proof& proof, bool local, bool with_segment) {
  Couple couple;
  couple.Open();
  couple.acceptor->set_local(local);
  const int32_t ranks[2] = {3, 1};
  const std::string hello = "mtrcoll1" + std::string(reinterpret_cast<const char*>(ranks), sizeof(ranks)) +
                            std::string(1 + kNonceBytes, '\0');
  EXPECT_TRUE(SendWith(couple.dialer->fd(), hello, {}));
  EXPECT_TRUE(couple.acceptor->Advance(-1).ok());
  const std::string nonce = Receive(couple.dialer->fd(), kNonceBytes + kMacBytes).substr(0, kNonceBytes);
  const std::vector<int> segments(with_segment ? 1 : 0, couple.dialer_segment.get());
  EXPECT_TRUE(SendWith(couple.dialer->fd(), proof.Mac(/*dialer=*/true, hello + nonce), segments));
  const absl::Status answer = couple.acceptor->Advance(local ? couple.acceptor_segment.get() : -1);
  EXPECT_EQ(couple.acceptor->state() == Link::State::kDone, answer.ok());
  return answer;
}

TEST(LinkTest, AcceptorRequiresTheProof) {
  for (const bool local : {true, false}) {
    const absl::Status welcome = Prove(kRight, local, local);
    EXPECT_TRUE(welcome.ok()) << welcome;
    for (const Proof& forged : kForged) {
      SCOPED_TRACE(absl::StrCat(forged.what, local ? " on this host" : " over TCP"));
      EXPECT_THAT(Prove(forged, local, local), StatusIs(kUnauthenticated, "wrong key or generation"));
    }
  }
}

TEST(LinkTest, AcceptorRequiresTheSegmentOfItsHost) {
  EXPECT_THAT(Prove(kRight, /*local=*/true, /*with_segment=*/false),
              StatusIs(absl::StatusCode::kInternal, "the greeting carried no shared memory"));
}

TEST(LinkTest, AcceptorReportsADialerThatStops) {
  Couple couple;
  couple.Open();
  ASSERT_TRUE(couple.dialer->Advance(-1).ok());    // Hello
  ASSERT_TRUE(couple.acceptor->Advance(-1).ok());  // Challenge
  shutdown(couple.dialer->fd(), SHUT_WR);
  EXPECT_THAT(couple.acceptor->Advance(couple.acceptor_segment.get()),
              StatusIs(absl::StatusCode::kUnavailable, "closed during the greeting"));
}

TEST(LinkTest, DialerRequiresTheProof) {
  const auto answer = [](const Proof& proof) {
    Couple couple;
    couple.Open();
    EXPECT_TRUE(couple.dialer->Advance(-1).ok());
    const std::string nonce(kNonceBytes, 'n');
    const std::string greeting = Receive(couple.acceptor->fd(), kHelloBytes) + nonce;
    EXPECT_TRUE(SendWith(couple.acceptor->fd(), nonce + proof.Mac(/*dialer=*/false, greeting), {}));
    const absl::Status status = couple.dialer->Advance(-1);
    EXPECT_EQ(couple.dialer->state() == Link::State::kVerified, status.ok());
    return status;
  };
  EXPECT_TRUE(answer(kRight).ok());
  for (const Proof& forged : kForged) {
    EXPECT_THAT(answer(forged),
                StatusIs(kUnauthenticated, "the peer that answered has a wrong key or generation"))
        << forged.what;
  }
}

TEST(LinkTest, DialerRequiresTheWelcome) {
  Couple couple;
  couple.Open();
  ASSERT_TRUE(couple.dialer->Advance(-1).ok());
  ASSERT_TRUE(couple.acceptor->Advance(-1).ok());
  ASSERT_TRUE(couple.dialer->Advance(-1).ok());
  ASSERT_TRUE(couple.dialer->Confirm(couple.dialer_segment.get()).ok());
  ASSERT_TRUE(SendWith(couple.acceptor->fd(), "X", {couple.acceptor_segment.get()}));
  EXPECT_THAT(couple.dialer->Advance(-1), StatusIs(kUnauthenticated, "wrong key or generation"));
}

TEST(LinkTest, GarbageIsRefusedAndSilenceIsAwaited) {
  Couple couple;
  couple.Open();
  EXPECT_TRUE(couple.acceptor->Advance(-1).ok());
  EXPECT_EQ(couple.acceptor->peer(), -1);
  const std::string garbage = "GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n";
  ASSERT_GT(send(couple.dialer->fd(), garbage.data(), garbage.size(), 0), 0);
  EXPECT_THAT(couple.acceptor->Advance(-1), StatusIs(kUnauthenticated, "not a member of this group"));
}

// An unauthenticated process of the same machine can attach descriptors to every byte of a greeting.
TEST(LinkTest, UnrequestedDescriptorsAreClosed) {
  Couple couple;
  couple.Open();
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_descriptors();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        SendWith(couple.dialer->fd(), "m", {couple.dialer_segment.get(), couple.dialer_segment.get()}));
    ASSERT_TRUE(couple.acceptor->Advance(-1).ok());
  }
  EXPECT_LE(open_descriptors(), before + 1);
  couple.acceptor.reset();
  EXPECT_EQ(open_descriptors(), before - 1);
}

TEST(LinkTest, NegativeRankIsRefused) {
  for (const int rank : {-1, -7}) {
    Couple couple;
    couple.Open();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    couple.dialer = Link::Dialed(UniqueFd(ends[0]), couple.dialer_secret, rank, 1, Purpose::kControl);
    couple.acceptor = Link::Accepted(UniqueFd(ends[1]), couple.acceptor_secret, 1, true);
    EXPECT_THAT(couple.AdvanceBoth(), StatusIs(kUnauthenticated, "invalid rank")) << rank;
  }
}

TEST(LinkTest, KeysDiffer) {
  EXPECT_EQ(NewKey().size(), 32u);
  EXPECT_NE(NewKey(), NewKey());
}

}  // namespace
}  // namespace mtrun::collectives
