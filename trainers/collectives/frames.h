// The frames between ranks on different hosts: in each phase one frame each way over a non-blocking socket. A
// frame has a head, a payload and a tag that authenticates it (frame_cipher.h). The payload passes the cipher
// in pieces, so that the network sends one while the next is processed. Not thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

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
  /// `cipher` and the payload must outlive this.
  FrameSender(int fd, FrameCipher& cipher, const FrameHead& head, ConstBytes payload);

  bool done() const { return sent_ == sizeof head_ + payload_.size + sizeof tag_; }
  /// Sends as much as the socket takes.
  Progress Advance();

 private:
  void CoverMore();

  int fd_;
  FrameCipher* cipher_;
  FrameHead head_;
  ConstBytes payload_;
  FrameCipher::Tag tag_ = {};
  size_t sent_ = 0;                    // bytes of the whole frame
  size_t piece_ = 0, covered_ = 0;     // payload bytes [piece_, covered_) may be sent
  std::vector<unsigned char> sealed_;  // these bytes, encrypted
};

class FrameReceiver {
 public:
  /// `cipher` and `room` must outlive this.
  FrameReceiver(int fd, FrameCipher& cipher, MutableBytes room);

  bool done() const { return received_ == sizeof head_ + room_.size + sizeof tag_; }
  /// Complete from kHead on. The caller must check its length: the payload is then read as `room` bytes.
  const FrameHead& head() const { return head_; }
  Progress Advance();

 private:
  int fd_;
  FrameCipher* cipher_;
  FrameHead head_;
  MutableBytes room_;
  FrameCipher::Tag tag_ = {};
  size_t received_ = 0;
};

}  // namespace mtrun::collectives
