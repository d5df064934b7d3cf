// What a rank sends to a peer on another host in one phase, and receives from it: one frame each way over a
// non-blocking socket, of a head, a payload and the tag that shows who made them (frame_cipher.h). A payload
// passes the cipher in pieces, so that the network carries one while the next is worked on. Not thread-safe.
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

/// As it travels.
struct FrameHead {
  static constexpr uint64_t kMagic = 0x32306d617266746dULL;  // "mtfram02"
  uint64_t magic = kMagic;
  uint64_t generation = 0;
  uint64_t phase = 0;
  Call call;
  uint64_t bytes = 0;  // of the payload
};
static_assert(sizeof(FrameHead) == 48);

enum class Progress {
  kNone,    // the socket is full, or empty
  kMoved,   // some bytes went
  kHead,    // a head has come in whole: it is looked at before the payload is read
  kHungUp,  // the connection is over
  kForged,  // the tag is not this frame's: nothing of it may be used
};

class FrameSender {
 public:
  /// `cipher` and the payload must outlive this.
  FrameSender(int fd, FrameCipher& cipher, const FrameHead& head, ConstBytes payload);

  bool done() const { return sent_ == sizeof head_ + payload_.size + sizeof tag_; }
  /// Sends what the socket takes.
  Progress Advance();

 private:
  void CoverMore();

  int fd_;
  FrameCipher* cipher_;
  FrameHead head_;
  ConstBytes payload_;
  FrameCipher::Tag tag_ = {};
  size_t sent_ = 0;                    // of all
  size_t piece_ = 0, covered_ = 0;     // the payload's bytes from here to there may be sent
  std::vector<unsigned char> sealed_;  // the same, encrypted
};

class FrameReceiver {
 public:
  /// `cipher` and `room` must outlive this.
  FrameReceiver(int fd, FrameCipher& cipher, MutableBytes room);

  bool done() const { return received_ == sizeof head_ + room_.size + sizeof tag_; }
  /// Whole from kHead on. Whoever goes on then takes its payload to be as long as the room.
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
