// A process manager for tests that gives scripted answers to any request.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/posix.h"
#include "launcher/pmi/message.h"

namespace mtrun::launcher {

/// kLong: more than any answer takes; kShort: a wait for an answer that never arrives.
inline constexpr Duration kLong = std::chrono::seconds(60), kShort = std::chrono::milliseconds(50);

class ScriptedManager {
 public:
  static constexpr char kHello[] = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";

  /// Sends one of `answers` after each request ("": none), and closes the connection at the next request.
  explicit ScriptedManager(std::vector<std::string> answers) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    client_ = UniqueFd(ends[0]);
    thread_ = std::thread([this, own = ends[1], answers = std::move(answers)] {
      UniqueFd connection(own);
      char bytes[4096];
      ssize_t size = 0;
      for (size_t i = 0; (size = read(connection.get(), bytes, sizeof bytes)) > 0; ++i) {
        heard_.append(bytes, static_cast<size_t>(size));
        if (i == answers.size()) return;
        if (!WriteAll(connection.get(), answers[i]).ok()) return;
      }
    });
  }
  ~ScriptedManager() {
    client_.Reset();
    if (thread_.joinable()) thread_.join();
  }

  UniqueFd TakeClient() { return std::move(client_); }
  /// Returns all requests once the other end is closed.
  const std::string& Heard() {
    client_.Reset();
    thread_.join();
    return heard_;
  }

  static std::string Ok(const std::string& command) { return Encode({command + "-response", {{"rc", "0"}}}); }

 private:
  UniqueFd client_;
  std::string heard_;
  std::thread thread_;
};

}  // namespace mtrun::launcher
