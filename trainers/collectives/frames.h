// The frames between ranks on different hosts: in each phase one frame each way over a non-blocking socket. A
// frame has a head, a payload and a tag that authenticates it (frame_cipher.h). The payload passes the cipher
// in pieces, so that the network sends one while the next is processed. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "trainers/collectives/frame_cipher.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

struct ConstBytes {
  const void* data = nullptr;
  size_t size = 0;
};
struct MutableBytes {
  void* data = nullptr;
  size_t size = 0;
};

/// A payload, in pieces.
template <typename Bytes>
using Pieces = absl::InlinedVector<Bytes, 1>;
template <typename Bytes>
size_t BytesIn(const Pieces<Bytes>& pieces) {
  size_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size;
  return size;
}

/// The head of a frame as sent.
struct FrameHead {
  static constexpr uint64_t kMagic = 0x32306d617266746dULL;  // "mtfram02"
  uint64_t magic = kMagic;
  uint64_t generation = 0;
  uint64_t phase = 0;
  Call call;
  uint64_t bytes = 0;  // length of the payload
};
static_assert(sizeof(FrameHead) == 48);

enum class Progress {
  kNone,    // the socket is full or empty
  kMoved,   // some bytes were transferred
  kHead,    // the head is complete: check it before reading the payload
  kHungUp,  // the connection is closed
  kForged,  // the tag is wrong: no part of the frame may be used
};

class FrameSender {
 public:
  /// `cipher` and the payload's bytes, `head.bytes` of them, must outlive this.
  FrameSender(int fd, FrameCipher& cipher, const FrameHead& head, Pieces<ConstBytes> payload);

  bool done() const { return sent_ == sizeof head_ + head_.bytes + sizeof tag_; }
  /// Sends as much as the socket takes.
  Progress Advance();

 private:
  void CoverMore();
  bool all_covered() const { return covered_ + window_.size == head_.bytes; }

  int fd_;
  FrameCipher* cipher_;
  FrameHead head_;
  Pieces<ConstBytes> payload_;
  FrameCipher::Tag tag_ = {};
  size_t sent_ = 0;                    // bytes of the whole frame
  size_t piece_ = 0, in_piece_ = 0;    // the first payload byte beyond the window
  ConstBytes window_;                  // part of one piece that may be sent
  size_t covered_ = 0;                 // payload bytes before the window
  std::vector<unsigned char> sealed_;  // the window, encrypted
};

class FrameReceiver {
 public:
  /// `cipher` and the bytes of `room` must outlive this.
  FrameReceiver(int fd, FrameCipher& cipher, Pieces<MutableBytes> room);

  bool done() const { return received_ == sizeof head_ + room_bytes_ + sizeof tag_; }
  /// Complete from kHead on. The caller must check its length: the payload is then read as `room` bytes.
  const FrameHead& head() const { return head_; }
  Progress Advance();

 private:
  int fd_;
  FrameCipher* cipher_;
  FrameHead head_;
  Pieces<MutableBytes> room_;
  size_t room_bytes_;
  FrameCipher::Tag tag_ = {};
  size_t received_ = 0;
};

}  // namespace mtrun::collectives
