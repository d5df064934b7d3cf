#include "rendezvous/service/log_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

// Random, so that answers to requests of an earlier service do not match.
LogCalls::LogCalls(asio::io_context& loop) : loop_(loop), last_id_(static_cast<int64_t>(RandomBits() >> 2)) {}

std::optional<int64_t> LogCalls::Add(const std::string& node_id, const std::string& name, Done done) {
  if (closed_ || calls_.size() >= kMost) return std::nullopt;
  const int64_t id = ++last_id_;
  Call& call = calls_[id];
  call = {node_id, name, std::move(done), std::make_unique<asio::steady_timer>(loop_)};
  call.timer->expires_after(kPatience);
  call.timer->async_wait([this, id, name](const std::error_code& error) {
    if (!error) Fail(id, absl::StrCat(name, " has not answered within ", HumanDuration(kPatience)));
  });
  return id;
}

void LogCalls::OnAnswer(const std::string& node_id, LogPart part) {
  const auto call = calls_.find(part.id);
  if (call == calls_.end() || call->second.node_id != node_id) return;
  const Done done = std::move(call->second.done);
  calls_.erase(call);
  done(std::move(part));
}

void LogCalls::Close() {
  closed_ = true;
  while (!calls_.empty()) Fail(calls_.begin()->first, "the service ends");
}

void LogCalls::Fail(int64_t id, const std::string& why) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  OnAnswer(std::string(call->second.node_id), LogPart{.id = id, .error = why});
}

}  // namespace mtrun::rendezvous
