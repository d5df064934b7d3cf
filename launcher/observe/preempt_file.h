// --preempt_file: a file that appears when this node must leave. Runs on the io_context's thread.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mtrun::launcher {

class PreemptFile {
 public:
  /// Calls `appeared` once. If `path` is "" nothing is watched.
  PreemptFile(asio::io_context& io, std::string path, std::function<void()> appeared);
  /// Starts watching. kFailedPrecondition if the file already exists.
  absl::Status Watch();

 private:
  void Await();

  asio::steady_timer timer_;
  const std::string path_;
  const std::function<void()> appeared_;
};

}  // namespace mtrun::launcher
