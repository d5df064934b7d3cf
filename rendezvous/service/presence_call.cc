#include "rendezvous/service/presence_call.h"

#include <errno.h>
#include <sys/socket.h>

#include <utility>

#include "base/presence_greeting.h"

namespace mtrun::rendezvous {

PresenceCall::PresenceCall(std::string node_id, uint64_t id, AddressList addresses, TimePoint deadline)
    : node_id_(std::move(node_id)),
      greeting_(PresenceGreeting(id)),
      addresses_(std::move(addresses)),
      next_(addresses_.get()),
      deadline_(deadline) {
  if (next_ == nullptr || id == 0) {
    End(State::kUnknown);
  } else {
    Connect();
  }
}

void PresenceCall::Connect() {
  const addrinfo* const address = std::exchange(next_, next_ == nullptr ? nullptr : next_->ai_next);
  if (address == nullptr) return End(asked_ ? State::kDead : State::kUnknown);
  heard_.clear();
  socket_ = UniqueFd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!socket_.valid() || connect(socket_.get(), address->ai_addr, address->ai_addrlen) != 0) error = errno;
  if (CannotBeAsked(*address, error)) return Connect();
  asked_ = true;
  if (error != 0 && error != EINPROGRESS) Fail(error);
}

void PresenceCall::OnReady() {
  char bytes[kPresenceGreetingSize];
  const ssize_t size = recv(socket_.get(), bytes, greeting_.size() - heard_.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size < 0) return Fail(errno);
  if (size == 0) return End(State::kUnknown);
  heard_.append(bytes, static_cast<size_t>(size));
  // One different byte is enough: TCP neither changes nor reorders bytes.
  if (!greeting_.starts_with(heard_)) return Connect();
  if (heard_.size() == greeting_.size()) End(State::kAlive);
}

void PresenceCall::OnTime(TimePoint now) {
  if (state_ == State::kOpen && now >= deadline_) End(State::kUnknown);
}

void PresenceCall::Fail(int error) {
  // Only the host itself refuses; "unreachable" comes from a router, and a reset follows a connection.
  if (error == ECONNREFUSED) return Connect();
  End(State::kUnknown);
}

void PresenceCall::End(State state) {
  state_ = state;
  socket_.Reset();
}

}  // namespace mtrun::rendezvous
