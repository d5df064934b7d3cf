#include "trainers/collectives/link.h"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::collectives {
namespace {

constexpr char kHelloMagic[] = "mtrcoll1";
constexpr size_t kHelloNonceBytes = 16;
constexpr size_t kMacBytes = 32;
constexpr size_t kHelloBytes = 8 + 4 + 4 + 1 + kHelloNonceBytes;
constexpr char kWelcome = 'W';

std::string RandomBytes(size_t count) {
  std::string bytes;
  while (bytes.size() < count) {
    const uint64_t bits = RandomBits();
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
  bytes.resize(count);
  return bytes;
}

std::string Number(uint32_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t NumberAt(const std::string& bytes, size_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace

std::string NewKey() { return RandomBytes(kMacBytes); }

Link Link::Dialed(UniqueFd fd, const Secret& secret, int me, int peer, Purpose purpose) {
  Link link(std::move(fd), secret, me);
  link.dialed_ = true;
  link.state_ = State::kConnecting;
  link.peer_ = peer;
  link.purpose_ = purpose;
  link.hello_ = kHelloMagic + Number(static_cast<uint32_t>(me)) + Number(static_cast<uint32_t>(peer)) +
                static_cast<char>(purpose) + RandomBytes(kHelloNonceBytes);
  return link;
}

Link Link::Accepted(UniqueFd fd, const Secret& secret, int me, bool local) {
  Link link(std::move(fd), secret, me);
  link.local_ = local;
  return link;
}

absl::Status Link::Advance(int segment_fd) {
  if (state_ == State::kConnecting) MT_RETURN_IF_ERROR(FinishConnect());
  if (state_ == State::kHello) MT_RETURN_IF_ERROR(dialed_ ? OnChallenge() : OnHello());
  if (state_ == State::kProof) MT_RETURN_IF_ERROR(OnProof(segment_fd));
  return absl::OkStatus();
}

absl::Status Link::FinishConnect() {
  pollfd writable = {fd_.get(), POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) return absl::OkStatus();
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return ErrnoStatus(error, "connect");
  MT_RETURN_IF_ERROR(Send(hello_, -1));
  state_ = State::kHello;
  return absl::OkStatus();
}

absl::Status Link::OnHello() {
  MT_ASSIGN_OR_RETURN(const bool complete, Receive(kHelloBytes));
  if (!complete) return absl::OkStatus();
  hello_ = std::exchange(inbox_, "");
  if (hello_.compare(0, 8, kHelloMagic) != 0) return absl::UnauthenticatedError("not a member of this group");
  if (NumberAt(hello_, 12) != static_cast<uint32_t>(me_))
    return absl::UnauthenticatedError("meant for another rank");
  const int peer = static_cast<int>(NumberAt(hello_, 8));
  if (peer < 0) return absl::UnauthenticatedError("invalid rank");
  peer_ = peer;
  purpose_ = static_cast<Purpose>(hello_[16]);
  nonce_ = RandomBytes(kHelloNonceBytes);
  MT_RETURN_IF_ERROR(Send(nonce_ + Mac("accept"), -1));
  state_ = State::kProof;
  return absl::OkStatus();
}

absl::Status Link::OnChallenge() {
  MT_ASSIGN_OR_RETURN(const bool complete, Receive(kHelloNonceBytes + kMacBytes));
  if (!complete) return absl::OkStatus();
  nonce_ = inbox_.substr(0, kHelloNonceBytes);
  const std::string mac = inbox_.substr(kHelloNonceBytes);
  inbox_.clear();
  if (!ConstantTimeEqual(mac, Mac("accept"))) {
    return absl::UnauthenticatedError("the peer that answered has a wrong key or generation");
  }
  state_ = State::kVerified;
  return absl::OkStatus();
}

absl::Status Link::Confirm(int segment_fd) {
  MT_CHECK(state_ == State::kVerified);
  MT_RETURN_IF_ERROR(Send(Mac("dial"), segment_fd));
  state_ = State::kProof;
  return absl::OkStatus();
}

absl::Status Link::OnProof(int segment_fd) {
  MT_ASSIGN_OR_RETURN(const bool complete, Receive(dialed_ ? 1 : kMacBytes));
  if (!complete) return absl::OkStatus();
  if (dialed_ ? inbox_[0] != kWelcome : !ConstantTimeEqual(inbox_, Mac("dial"))) {
    return absl::UnauthenticatedError("wrong key or generation");
  }
  if (local_ && !received_.valid()) return absl::InternalError("the greeting carried no shared memory");
  if (!dialed_) MT_RETURN_IF_ERROR(Send(std::string(1, kWelcome), local_ ? segment_fd : -1));
  state_ = State::kDone;
  return absl::OkStatus();
}

short Link::WantedEvents() const {
  if (state_ == State::kConnecting) return POLLOUT;
  return state_ == State::kVerified || state_ == State::kDone ? 0 : POLLIN;
}

// Returns true if inbox_ holds `bytes` bytes. Never reads more, so that no part of a later message is lost.
absl::StatusOr<bool> Link::Receive(size_t bytes) {
  while (inbox_.size() < bytes) {
    char buffer[128];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part = {buffer, std::min(sizeof(buffer), bytes - inbox_.size())};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t count = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (count < 0) return ErrnoStatus(errno, "read a greeting");
    if (count == 0) return absl::UnavailableError("closed during the greeting");
    inbox_.append(buffer, static_cast<size_t>(count));
    TakeDescriptors(message);
  }
  return true;
}

// Keeps the first descriptor, which is the segment. The padded control buffer has space for two, and an
// unauthenticated client can send descriptors with every byte.
void Link::TakeDescriptors(const msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return;
  const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(header) + i * sizeof(passed), sizeof(passed));
    UniqueFd fd(passed);
    if (!received_.valid()) received_ = std::move(fd);
  }
}

// Returns an error after a short write: greetings are far smaller than an empty socket buffer.
absl::Status Link::Send(const std::string& bytes, int passed_fd) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed_fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &passed_fd, sizeof(passed_fd));
  }
  const ssize_t count = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return ErrnoStatus(errno, "send a greeting");
  if (static_cast<size_t>(count) != bytes.size()) return absl::UnavailableError("a greeting was cut short");
  return absl::OkStatus();
}

std::string Link::Mac(std::string_view role) const {
  return HmacSha256(secret_->key, absl::StrCat(View(role), "\n", secret_->generation, "\n", hello_, nonce_));
}

}  // namespace mtrun::collectives
