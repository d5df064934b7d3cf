// --preempt_file: a file that somebody makes when this node is to go. Runs on the io_context's thread.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mtrun::launcher {

class PreemptFile {
 public:
  /// `appeared` is called once. With `path` "" nothing is watched.
  PreemptFile(asio::io_context& io, std::string path, std::function<void()> appeared);
  /// kFailedPrecondition when the file is there already.
  absl::Status Watch();

 private:
  void Await();

  asio::steady_timer timer_;
  const std::string path_;
  const std::function<void()> appeared_;
};

}  // namespace mtrun::launcher
