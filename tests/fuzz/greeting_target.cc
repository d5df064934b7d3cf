#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"
#include "trainers/collectives/host.h"
#include "trainers/collectives/link.h"
#include "trainers/collectives/shutdown_notice.h"

namespace mtrun::fuzz {
namespace {

using namespace collectives;  // NOLINT: the code under test

constexpr int kAcceptor = 1, kDialer = 3;

struct Pair {
  Pair() {
    int ends[2];
    MT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    near = UniqueFd(ends[0]);
    far = UniqueFd(ends[1]);
  }
  UniqueFd near, far;
};

const Link::Secret& Secret() {
  static const Link::Secret secret = {.key = "the key of the group", .generation = "1.a"};
  return secret;
}

void Say(const UniqueFd& fd, std::string_view bytes) {
  MT_CHECK(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()) ||
           bytes.empty());
}

/// Returns a Hello from kDialer to kAcceptor.
std::string RightHello() {
  const int32_t ranks[2] = {kDialer, kAcceptor};
  return "mtrcoll1" + std::string(reinterpret_cast<const char*>(ranks), sizeof(ranks)) +
         static_cast<char>(Purpose::kData) + std::string(16, 'n');
}

/// Tests that a peer without the key never becomes a member. It stays connected: its end must not be the
/// reason.
void Stranger(bool dialed, const std::string& bytes) {
  Pair pair;
  Link link = dialed ? Link::Dialed(std::move(pair.near), Secret(), kDialer, kAcceptor, Purpose::kData)
                     : Link::Accepted(std::move(pair.near), Secret(), kAcceptor, /*local=*/false);
  Say(pair.far, bytes);
  for (int i = 0; i < 4 && link.Advance(-1).ok(); ++i) {
  }
  MT_HOLDS(link.state() != Link::State::kDone && link.state() != Link::State::kVerified);
}

void Strangers(std::string_view bytes) {
  // A proof and a challenge of the right length are reached however short the input is.
  std::string filled(bytes);
  filled.resize(std::max<size_t>(filled.size(), 64), 'x');
  Stranger(/*dialed=*/false, std::string(bytes));
  Stranger(/*dialed=*/false, RightHello() + filled);
  Stranger(/*dialed=*/true, filled);
}

/// Forwards data from `from` to `to`, in pieces; flips `mask` in byte number `at`. Returns whether it did.
bool Relay(const UniqueFd& from, const UniqueFd& to, size_t piece, size_t at, char mask, size_t* carried) {
  char buffer[256];
  const ssize_t count = recv(from.get(), buffer, std::min(piece, sizeof(buffer)), MSG_DONTWAIT);
  if (count <= 0) return false;
  const bool hit = at >= *carried && at < *carried + static_cast<size_t>(count);
  if (hit) buffer[at - *carried] = static_cast<char>(buffer[at - *carried] ^ mask);
  *carried += static_cast<size_t>(count);
  Say(to, {buffer, static_cast<size_t>(count)});
  return hit && mask != 0;
}

/// Runs two members with a man in the middle who changes their bytes: both finish, or one detects it.
void ManInTheMiddle(std::string_view bytes) {
  if (bytes.size() < 5) return;
  const size_t piece = 1 + static_cast<unsigned char>(bytes[0]);
  Pair dialing, accepting;
  Link dialer = Link::Dialed(std::move(dialing.near), Secret(), kDialer, kAcceptor, Purpose::kData);
  Link acceptor = Link::Accepted(std::move(accepting.near), Secret(), kAcceptor, /*local=*/false);
  bool changed = false, failed = false;
  size_t there = 0, back = 0;
  for (int turn = 0; turn < 256 && !failed; ++turn) {
    failed = !dialer.Advance(-1).ok();
    if (dialer.state() == Link::State::kVerified) failed = failed || !dialer.Confirm(-1).ok();
    failed = !acceptor.Advance(-1).ok() || failed;
    changed |=
        Relay(dialing.far, accepting.far, piece, static_cast<unsigned char>(bytes[1]), bytes[2], &there);
    changed |=
        Relay(accepting.far, dialing.far, piece, static_cast<unsigned char>(bytes[3]), bytes[4], &back);
  }
  const bool both = dialer.state() == Link::State::kDone && acceptor.state() == Link::State::kDone;
  MT_HOLDS(both == !changed) << changed;
}

/// Runs a member that has the key and sends nonsense about itself.
void Member(std::string_view bytes) {
  if (bytes.size() < 5) return;
  int32_t rank = 0;
  std::copy_n(bytes.data(), sizeof(rank), reinterpret_cast<char*>(&rank));
  Pair pair;
  Link dialer = Link::Dialed(std::move(pair.near), Secret(), rank, kAcceptor, static_cast<Purpose>(bytes[4]));
  Link acceptor = Link::Accepted(std::move(pair.far), Secret(), kAcceptor, /*local=*/false);
  for (int turn = 0; turn < 4; ++turn) {
    if (!dialer.Advance(-1).ok()) break;
    if (dialer.state() == Link::State::kVerified && !dialer.Confirm(-1).ok()) break;
    if (!acceptor.Advance(-1).ok()) break;
  }
  MT_HOLDS(acceptor.state() != Link::State::kDone || acceptor.peer() >= 0) << acceptor.peer();
}

void ReadTexts(std::string_view bytes) {
  if (const auto notice = DecodeShutdownNotice(bytes)) DecodeShutdownNotice(Encode(*notice));
  const auto info = DecodePeerInfo(std::string(bytes));
  if (!info.ok()) return;
  const auto again = DecodePeerInfo(Encode(*info));
  MT_HOLDS(again.ok() && Encode(*again) == Encode(*info)) << Encode(*info);
}

}  // namespace

void FuzzGreeting(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0] % 4) {
    case 0:
      return Strangers(rest);
    case 1:
      return ManInTheMiddle(rest);
    case 2:
      return Member(rest);
    default:
      return ReadTexts(rest);
  }
}

}  // namespace mtrun::fuzz
