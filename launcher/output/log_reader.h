// Reads workers' logs for remote users (mtrun --logs), on its own thread: a network folder can hang.
#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <functional>

#include "launcher/output/log_files.h"
#include "rendezvous/wire/log_call.h"

namespace mtrun::launcher {

/// Returns the next bytes of the two files, or their last lines. A missing file counts as empty.
rendezvous::LogPart ReadLogPart(const rendezvous::LogRequest& request, const WorkerFiles& files);

class LogReader {
 public:
  using Done = std::function<void(const rendezvous::LogPart&)>;
  static constexpr size_t kMaxWaiting = 8;

  explicit LogReader(asio::io_context& io) : io_(io) {}
  ~LogReader() { pool_.join(); }

  /// Calls `done` on the loop's (and caller's) thread: later, or at once if too many requests are waiting.
  void Read(const rendezvous::LogRequest& request, const WorkerFiles& files, Done done);

 private:
  asio::io_context& io_;
  size_t waiting_ = 0;
  asio::thread_pool pool_{1};
};

}  // namespace mtrun::launcher
