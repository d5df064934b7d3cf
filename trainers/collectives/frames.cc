#include "trainers/collectives/frames.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace mtrun::collectives {
namespace {

constexpr size_t kPiece = size_t{256} << 10;  // stays in the cache between the cipher and the kernel

/// The rest of a stream of parts after its first `gone` bytes.
class Rest {
 public:
  explicit Rest(size_t gone) : gone_(gone) {}
  void Add(const void* data, size_t bytes) {
    const size_t skipped = std::min(gone_, bytes);
    gone_ -= skipped;
    if (skipped == bytes) return;
    parts_[message_.msg_iovlen++] = {static_cast<char*>(const_cast<void*>(data)) + skipped, bytes - skipped};
  }
  msghdr* message() {
    message_.msg_iov = parts_;
    return &message_;
  }

 private:
  size_t gone_;
  iovec parts_[3];
  msghdr message_ = {};
};

bool MustWait(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

// ---- sending ----

FrameSender::FrameSender(int fd, FrameCipher& cipher, const FrameHead& head, ConstBytes payload)
    : fd_(fd), cipher_(&cipher), head_(head), payload_(payload) {
  cipher_->Begin(&head_, sizeof head_);
  CoverMore();
}

void FrameSender::CoverMore() {
  piece_ = covered_;
  const size_t bytes = std::min(kPiece, payload_.size - covered_);
  if (cipher_->encrypts()) sealed_.resize(bytes);
  cipher_->Pass(static_cast<const char*>(payload_.data) + piece_, bytes, sealed_.data());
  covered_ += bytes;
  if (covered_ == payload_.size) tag_ = cipher_->Finish();
}

Progress FrameSender::Advance() {
  if (sent_ == sizeof head_ + covered_ && covered_ < payload_.size) CoverMore();
  // If the head has been sent, so has everything before the piece.
  const size_t before = sent_ < sizeof head_ ? 0 : piece_;
  Rest rest(sent_ - before);
  rest.Add(&head_, sizeof head_);
  rest.Add(cipher_->encrypts() ? sealed_.data() : static_cast<const unsigned char*>(payload_.data) + piece_,
           covered_ - piece_);
  if (covered_ == payload_.size) rest.Add(tag_.data(), sizeof tag_);
  const ssize_t count = sendmsg(fd_, rest.message(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count <= 0) return MustWait(count) ? Progress::kNone : Progress::kHungUp;
  sent_ += static_cast<size_t>(count);
  return Progress::kMoved;
}

// ---- receiving ----

FrameReceiver::FrameReceiver(int fd, FrameCipher& cipher, MutableBytes room)
    : fd_(fd), cipher_(&cipher), room_(room) {}

Progress FrameReceiver::Advance() {
  const bool in_head = received_ < sizeof head_;
  Rest rest(received_);
  rest.Add(&head_, sizeof head_);
  if (!in_head) {
    rest.Add(room_.data, room_.size);
    rest.Add(tag_.data(), sizeof tag_);
  }
  const ssize_t count = recvmsg(fd_, rest.message(), MSG_DONTWAIT);
  if (count <= 0) return MustWait(count) ? Progress::kNone : Progress::kHungUp;
  const size_t before = received_;
  received_ += static_cast<size_t>(count);
  if (in_head) {
    if (received_ < sizeof head_) return Progress::kMoved;
    cipher_->Begin(&head_, sizeof head_);
    return Progress::kHead;
  }
  const size_t from = std::min(before - sizeof head_, room_.size);
  const size_t to = std::min(received_ - sizeof head_, room_.size);
  char* const payload = static_cast<char*>(room_.data) + from;
  cipher_->Pass(payload, to - from, payload);
  if (!done()) return Progress::kMoved;
  return cipher_->Check(tag_) ? Progress::kMoved : Progress::kForged;
}

}  // namespace mtrun::collectives
