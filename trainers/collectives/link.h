// The handshake of one connection between two ranks: mutual HMAC-SHA256 authentication with the generation's
// key, as in ISO/IEC 9798-4 (three passes). Ranks on one host also exchange their segments' descriptors.
//
//   dialer -> acceptor   Hello: magic, both ranks, purpose, nonce
//   acceptor -> dialer   Challenge: nonce, HMAC(key, "accept" transcript)
//   dialer -> acceptor   Proof: HMAC(key, "dial" transcript)         (Unix: with its segment's descriptor)
//   acceptor -> dialer   Welcome: one byte                           (Unix: with its segment's descriptor)
//
// The transcript holds the generation, the Hello and the acceptor's nonce. A message of another generation,
// rank or connection therefore cannot be replayed. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/status.h"
#include "base/posix.h"

namespace mtrun::collectives {

enum class Purpose : uint8_t {
  kControl,  // shutdown notices; closes if the peer ends; the only connection between ranks of one host
  kData,     // frames between hosts
};

/// Returns 32 random bytes.
std::string NewKey();

class Link {
 public:
  struct Secret {
    std::string key, generation;
  };
  enum class State {
    kConnecting,  // dialer: connect(2) is in progress
    kHello,       // acceptor: waits for Hello; dialer: waits for Challenge
    kVerified,    // dialer: the peer is authenticated, Confirm() is next
    kProof,       // acceptor: waits for Proof; dialer: waits for Welcome
    kDone,
  };

  /// `fd`: a non-blocking socket after connect(2) (Dialed), or from accept(2) (Accepted).
  static Link Dialed(UniqueFd fd, const Secret& secret, int me, int peer, Purpose purpose);
  static Link Accepted(UniqueFd fd, const Secret& secret, int me, bool local);

  /// Continues the handshake as far as it can without blocking. If it returns an error, drop the connection;
  /// an unauthenticated client's error needs no other action.
  absl::Status Advance(int segment_fd);
  /// Sends the Proof. `segment_fd`: -1 for TCP. REQUIRES: state() is kVerified.
  absl::Status Confirm(int segment_fd);

  short WantedEvents() const;
  State state() const { return state_; }
  int fd() const { return fd_.get(); }
  bool dialed() const { return dialed_; }
  bool local() const { return local_; }
  /// The peer's rank: known from the start if dialed, from kProof on if accepted.
  int peer() const { return peer_; }
  Purpose purpose() const { return purpose_; }
  /// Returns 32 bytes that only the two ends can compute: the key of this connection for the frames of the
  /// dialer or of the acceptor. REQUIRES: state() is kDone.
  std::string DirectionKey(bool of_dialer) const {
    return Mac(of_dialer ? "dialer's frames" : "acceptor's frames");
  }
  /// Return the socket and the peer's segment (Unix). REQUIRES: state() is kDone.
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
