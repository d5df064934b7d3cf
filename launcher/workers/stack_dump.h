// Writes the current stacks of all threads of the workers to files: with an installed debugger's tool if
// there is one, otherwise the kernel's view. Runs on its own thread; a tool that hangs is killed.
#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace mtrun::launcher {

/// Paths of tools that print the stacks of a running process; "" for those not installed.
struct StackTools {
  std::string py_spy, eu_stack, gdb;
  bool operator==(const StackTools&) const = default;
};
/// Finds the tools in the folders of `path` (PATH).
StackTools FindStackTools(const std::string& path);

/// Returns the command that prints the stacks of process `pid`, which runs `executable`; empty if no tool
/// can. py-spy is for Python and also shows Python's own frames.
std::vector<std::string> StackCommand(const StackTools& tools, const std::string& executable, int64_t pid);

/// Describes every thread of the process from /proc: name, state, wait channel, kernel stack if permitted.
std::string KernelStacks(const std::string& root, int64_t pid);

class StackDump {
 public:
  static constexpr Duration kToolPatience = std::chrono::seconds(20);  // per process

  explicit StackDump(asio::io_context& io) : io_(io) {}
  /// Aborts a dump in progress, so that the exit does not wait for a debugger.
  ~StackDump() {
    ending_ = true;
    pool_.join();
  }

  /// Writes `folder`/stacks_<time>/<name>.txt for each of `pids` and its descendants, and logs the path. Loop
  /// thread only; refused while another dump is in progress.
  void Write(const std::string& folder, std::map<std::string, int64_t> pids);

 private:
  asio::io_context& io_;
  bool busy_ = false;
  std::atomic<bool> ending_ = false;
  asio::thread_pool pool_{1};
};

}  // namespace mtrun::launcher
