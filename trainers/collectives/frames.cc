#include "trainers/collectives/frames.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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
    parts_.push_back({static_cast<char*>(const_cast<void*>(data)) + skipped, bytes - skipped});
  }
  msghdr* message() {
    message_.msg_iov = parts_.data();
    message_.msg_iovlen = parts_.size();
    return &message_;
  }

 private:
  size_t gone_;
  absl::InlinedVector<iovec, 4> parts_;
  msghdr message_ = {};
};

bool MustWait(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

// ---- sending ----

FrameSender::FrameSender(int fd, FrameCipher& cipher, const FrameHead& head, Pieces<ConstBytes> payload)
    : fd_(fd), cipher_(&cipher), head_(head), payload_(std::move(payload)) {
  cipher_->Begin(&head_, sizeof head_);
  CoverMore();
}

void FrameSender::CoverMore() {
  covered_ += window_.size;
  window_ = {};
  while (piece_ < payload_.size() && in_piece_ == payload_[piece_].size) ++piece_, in_piece_ = 0;
  if (piece_ < payload_.size()) {
    window_ = {static_cast<const char*>(payload_[piece_].data) + in_piece_,
               std::min(kPiece, payload_[piece_].size - in_piece_)};
    in_piece_ += window_.size;
  }
  if (cipher_->encrypts()) sealed_.resize(window_.size);
  cipher_->Pass(window_.data, window_.size, sealed_.data());
  if (all_covered()) tag_ = cipher_->Finish();
}

Progress FrameSender::Advance() {
  if (sent_ == sizeof head_ + covered_ + window_.size && !all_covered()) CoverMore();
  // If the head has been sent, so has everything before the window.
  Rest rest(sent_ - (sent_ < sizeof head_ ? 0 : covered_));
  rest.Add(&head_, sizeof head_);
  rest.Add(cipher_->encrypts() ? sealed_.data() : window_.data, window_.size);
  if (all_covered()) rest.Add(tag_.data(), sizeof tag_);
  const int more = all_covered() ? 0 : MSG_MORE;
  const ssize_t count = sendmsg(fd_, rest.message(), MSG_NOSIGNAL | MSG_DONTWAIT | more);
  if (count <= 0) return MustWait(count) ? Progress::kNone : Progress::kHungUp;
  sent_ += static_cast<size_t>(count);
  return Progress::kMoved;
}

// ---- receiving ----

FrameReceiver::FrameReceiver(int fd, FrameCipher& cipher, Pieces<MutableBytes> room)
    : fd_(fd), cipher_(&cipher), room_(std::move(room)), room_bytes_(BytesIn(room_)) {}

Progress FrameReceiver::Advance() {
  const bool in_head = received_ < sizeof head_;
  Rest rest(received_);
  rest.Add(&head_, sizeof head_);
  if (!in_head) {
    for (const MutableBytes& piece : room_) rest.Add(piece.data, piece.size);
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
  size_t begin = sizeof head_;
  for (const MutableBytes& piece : room_) {
    const size_t from = std::clamp(before, begin, begin + piece.size) - begin;
    const size_t to = std::clamp(received_, begin, begin + piece.size) - begin;
    char* const payload = static_cast<char*>(piece.data) + from;
    cipher_->Pass(payload, to - from, payload);
    begin += piece.size;
  }
  if (!done()) return Progress::kMoved;
  return cipher_->Check(tag_) ? Progress::kMoved : Progress::kForged;
}

}  // namespace mtrun::collectives
