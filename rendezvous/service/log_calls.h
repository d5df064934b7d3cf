// Requests for a worker's log that wait for the answer of its agent: each is answered once, in time. Loop
// thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/log_call.h"

namespace mtrun::rendezvous {

class LogCalls {
 public:
  static constexpr size_t kMost = 16;
  /// Shorter than the client's own wait (unary_call.h).
  static constexpr Duration kPatience = std::chrono::seconds(4);
  using Done = std::function<void(LogPart)>;

  explicit LogCalls(asio::io_context& loop);

  /// Adds a request to that node, called `name`. Returns its id, or nothing if too many wait, or after Close.
  std::optional<int64_t> Add(const std::string& node_id, const std::string& name, Done done);
  /// Ignored if it comes from another node or answers a request that does not wait any more.
  void OnAnswer(const std::string& node_id, LogPart part);
  /// The service ends: answers all that wait with an error.
  void Close();

 private:
  struct Call {
    std::string node_id, name;
    Done done;
    std::unique_ptr<asio::steady_timer> timer;
  };
  void Fail(int64_t id, const std::string& why);

  asio::io_context& loop_;
  std::map<int64_t, Call> calls_;
  int64_t last_id_;
  bool closed_ = false;
};

}  // namespace mtrun::rendezvous
