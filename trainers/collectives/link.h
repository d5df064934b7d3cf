// One connection between two ranks while it proves itself: a mutual HMAC-SHA256 challenge under the
// generation's key, as in ISO/IEC 9798-4 (three passes), and on one host the exchange of the segments'
// descriptors.
//
//   dialer -> acceptor   Hello: magic, both ranks, purpose, nonce
//   acceptor -> dialer   Challenge: nonce, HMAC(key, "accept" transcript)
//   dialer -> acceptor   Proof: HMAC(key, "dial" transcript)         (Unix: with its segment's descriptor)
//   acceptor -> dialer   Welcome: one byte                           (Unix: with its segment's descriptor)
//
// The transcript holds the generation, the Hello and the acceptor's nonce, so that nothing said in another
// generation, to another rank or on another connection is of use to anybody. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/status.h"
#include "base/posix.h"

namespace mtrun::collectives {

enum class Purpose : uint8_t {
  kControl,  // shutdown notices, closed at the peer's end; the only connection between ranks of one host
  kData,     // frames between hosts
};

/// 32 random bytes.
std::string NewKey();

class Link {
 public:
  struct Secret {
    std::string key, generation;
  };
  enum class State {
    kConnecting,  // dialer: connect(2) is under way
    kHello,       // acceptor: waits for Hello; dialer: waits for Challenge
    kVerified,    // dialer: the peer is the right one, Confirm() is next
    kProof,       // acceptor: waits for Proof; dialer: waits for Welcome
    kDone,
  };

  /// `fd`: a non-blocking socket on which connect(2) was called, or one from accept(2).
  static Link Dialed(UniqueFd fd, const Secret& secret, int me, int peer, Purpose purpose);
  static Link Accepted(UniqueFd fd, const Secret& secret, int me, bool local);

  /// Continues as far as it can without blocking. An error means: drop this connection (a stranger's is
  /// nothing to worry about).
  absl::Status Advance(int segment_fd);
  /// From kVerified: sends the Proof. `segment_fd` -1 for TCP.
  absl::Status Confirm(int segment_fd);

  short WantedEvents() const;
  State state() const { return state_; }
  int fd() const { return fd_.get(); }
  bool dialed() const { return dialed_; }
  bool local() const { return local_; }
  /// Known from the start when dialed, from kProof on when accepted.
  int peer() const { return peer_; }
  Purpose purpose() const { return purpose_; }
  /// When done: 32 bytes that only both ends can compute, of this connection and for what the dialer sends,
  /// or the acceptor.
  std::string DirectionKey(bool of_dialer) const {
    return Mac(of_dialer ? "dialer's frames" : "acceptor's frames");
  }
  /// When done: the socket, and the peer's segment (Unix).
  UniqueFd TakeSocket() { return std::move(fd_); }
  UniqueFd TakeSegment() { return std::move(received_); }
  void set_local(bool local) { local_ = local; }

 private:
  Link(UniqueFd fd, const Secret& secret, int me) : fd_(std::move(fd)), secret_(&secret), me_(me) {}
  absl::Status FinishConnect();
  absl::Status OnHello();
  absl::Status OnChallenge();
  absl::Status OnProof(int segment_fd);
  absl::StatusOr<bool> Receive(size_t bytes);
  void TakeDescriptors(const msghdr& message);
  absl::Status Send(const std::string& bytes, int passed_fd);
  std::string Mac(std::string_view role) const;

  UniqueFd fd_;
  const Secret* secret_;
  int me_;
  bool dialed_ = false;
  bool local_ = false;
  State state_ = State::kHello;
  int peer_ = -1;
  Purpose purpose_ = Purpose::kControl;
  std::string hello_, nonce_;  // nonce_: the acceptor's
  std::string inbox_;
  UniqueFd received_;
};

}  // namespace mtrun::collectives
