// A link to a server of this machine that does what networks do when a test wants it to: it is cut, holds
// back, refuses, changes a byte. It is slow, so that a fault meets what it carries on the way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mtrun::support {

/// Carries connections to `address`:port on to 127.0.0.1:`target`. A server that goes takes with it what was
/// on its way, as one does that loses its power. Thread-safe.
class FaultyLink {
 public:
  /// `port` 0: any. Ends the process when it cannot be had.
  FaultyLink(const std::string& address, int port, int target);
  ~FaultyLink();

  int port() const { return port_; }
  /// Bytes that have come through to clients.
  int64_t carried() const { return carried_; }

  enum class Mode {
    kCarries,
    kHolds,    // nothing comes through
    kRefuses,  // connections are closed at once
  };
  void Set(Mode mode);
  /// Resets all connections. How many of them have carried something to their client within the last moment.
  int Cut();
  /// Changes a bit of what it carries to a client next.
  void ChangeNext() { change_next_ = true; }
  int changed() const { return changed_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;
  void Run();
  void Accept();
  bool Carry(Connection& connection);
  bool CarryUp(const Connection& connection);
  bool CarryDown(Connection& connection);

  const int target_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> over_ = false, change_next_ = false;
  std::atomic<int> changed_ = 0;
  std::atomic<int64_t> carried_ = 0;
  std::mutex mu_;
  Mode mode_ = Mode::kCarries;  // guarded by mu_, as what follows
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace mtrun::support
