// Reads workers' log files for people elsewhere (mtrun --logs) on a thread of its own: a folder may lie on a
// network that hangs.
#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <functional>

#include "launcher/output/log_files.h"
#include "rendezvous/log_call.h"

namespace mtrun::launcher {

/// The next bytes of the two files, or the last lines of them. Files that are not there have none.
rendezvous::LogPart ReadLogPart(const rendezvous::LogRequest& request, const WorkerFiles& files);

class LogReader {
 public:
  using Done = std::function<void(const rendezvous::LogPart&)>;
  static constexpr size_t kMostWaiting = 8;

  explicit LogReader(asio::io_context& io) : io_(io) {}
  ~LogReader() { pool_.join(); }

  /// Calls `done` on the loop's thread, which is the caller's: later, or at once where too many wait.
  void Read(const rendezvous::LogRequest& request, const WorkerFiles& files, Done done);

 private:
  asio::io_context& io_;
  size_t waiting_ = 0;
  asio::thread_pool pool_{1};
};

}  // namespace mtrun::launcher
