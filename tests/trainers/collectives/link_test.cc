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

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

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
  EXPECT_TRUE(absl::IsUnauthenticated(couple.AdvanceBoth()));
  EXPECT_NE(couple.dialer->state(), Link::State::kVerified);
}

TEST(LinkTest, AnotherGenerationIsRefused) {
  Couple couple;
  couple.dialer_secret.generation = "0.a";  // a frozen rank that woke up
  couple.Open();
  EXPECT_TRUE(absl::IsUnauthenticated(couple.AdvanceBoth()));
}

TEST(LinkTest, ConnectionMeantForAnotherRankIsRefused) {
  Couple couple;
  couple.Open(2);
  EXPECT_TRUE(absl::IsUnauthenticated(couple.AdvanceBoth()));
}

// A dialer that does not know the key can echo, invent or stop.
TEST(LinkTest, AcceptorRequiresTheProof) {
  for (const std::string& proof : {std::string(32, 'x'), std::string()}) {
    Couple couple;
    couple.Open();
    ASSERT_TRUE(couple.dialer->Advance(-1).ok());    // Hello
    ASSERT_TRUE(couple.acceptor->Advance(-1).ok());  // Challenge
    if (proof.empty()) {
      shutdown(couple.dialer->fd(), SHUT_WR);
    } else {
      ASSERT_EQ(send(couple.dialer->fd(), proof.data(), proof.size(), 0), 32);
    }
    EXPECT_FALSE(couple.acceptor->Advance(couple.acceptor_segment.get()).ok());
    EXPECT_NE(couple.acceptor->state(), Link::State::kDone);
  }
}

TEST(LinkTest, GarbageIsRefusedAndSilenceIsAwaited) {
  Couple couple;
  couple.Open();
  EXPECT_TRUE(couple.acceptor->Advance(-1).ok());
  EXPECT_EQ(couple.acceptor->peer(), -1);
  const std::string garbage = "GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n";
  ASSERT_GT(send(couple.dialer->fd(), garbage.data(), garbage.size(), 0), 0);
  EXPECT_TRUE(absl::IsUnauthenticated(couple.acceptor->Advance(-1)));
}

// An unauthenticated process of the same machine can attach descriptors to every byte of a greeting.
TEST(LinkTest, UnrequestedDescriptorsAreClosed) {
  Couple couple;
  couple.Open();
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_descriptors();
  char byte = 'm';
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int passed[2] = {couple.dialer_segment.get(), couple.dialer_segment.get()};
  std::memcpy(CMSG_DATA(header), passed, sizeof(passed));
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(sendmsg(couple.dialer->fd(), &message, 0), 1);
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
    EXPECT_TRUE(absl::IsUnauthenticated(couple.AdvanceBoth())) << rank;
  }
}

TEST(LinkTest, KeysDiffer) {
  EXPECT_EQ(NewKey().size(), 32u);
  EXPECT_NE(NewKey(), NewKey());
}

}  // namespace
}  // namespace mtrun::collectives
