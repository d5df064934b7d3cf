#include "web/live_body.h"

#include <utility>

namespace mtrun::web {

void LiveBody::Set(std::string text) {
  MutexLock lock(mu_);
  if (ended_ || gone_ || text.empty()) return;
  text_ = std::move(text);
  if (wake_) wake_();
}

void LiveBody::End() {
  MutexLock lock(mu_);
  ended_ = true;
  if (wake_) wake_();
}

bool LiveBody::gone() const {
  MutexLock lock(mu_);
  return gone_;
}

LiveBody::Next LiveBody::Take() {
  MutexLock lock(mu_);
  Next next{std::exchange(text_, std::nullopt), false};
  next.ended = ended_ && !next.text;
  return next;
}

void LiveBody::Attach(std::function<void()> wake) {
  MutexLock lock(mu_);
  wake_ = std::move(wake);
}

void LiveBody::Detach() {
  MutexLock lock(mu_);
  wake_ = nullptr;
  gone_ = true;
}

}  // namespace mtrun::web
