// What all threads of the workers do now, as files for people: by the debugger's tools that are installed,
// else what the kernel tells. On a thread of its own; a tool that hangs is ended.
#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace mtrun::launcher {

/// Paths of tools that print the stacks of a running process, "" for those that are not here.
struct StackTools {
  std::string py_spy, eu_stack, gdb;
  bool operator==(const StackTools&) const = default;
};
/// Those in the folders of `path` (PATH).
StackTools FindStackTools(const std::string& path);

/// The command that prints the stacks of that process, which runs `executable`; none: no tool here does it.
/// py-spy is for Python, where it shows Python's own frames too.
std::vector<std::string> StackCommand(const StackTools& tools, const std::string& executable, int64_t pid);

/// Every thread of the process as /proc shows it: name, state, what it waits for, kernel stack where allowed.
std::string KernelStacks(const std::string& root, int64_t pid);

class StackDump {
 public:
  static constexpr Duration kToolPatience = std::chrono::seconds(20);  // a process

  explicit StackDump(asio::io_context& io) : io_(io) {}
  /// Ends one that goes on: nobody waits for a debugger.
  ~StackDump() {
    ending_ = true;
    pool_.join();
  }

  /// Writes `folder`/stacks_<time>/<name>.txt for each of `pids` and all that descends from it, and says
  /// where they lie. Loop thread only; while one goes on another is refused.
  void Write(const std::string& folder, std::map<std::string, int64_t> pids);

 private:
  asio::io_context& io_;
  bool busy_ = false;
  std::atomic<bool> ending_ = false;
  asio::thread_pool pool_{1};
};

}  // namespace mtrun::launcher
