// A link to a server of this machine that fails like a network on request: it is cut, stalls, refuses, or
// changes a byte. It is slow, so that a fault affects data in transit.
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

/// Forwards connections from `address`:port to 127.0.0.1:`target`. If the server ends, data in transit is
/// lost, as in a power failure. Thread-safe.
class FaultyLink {
 public:
  /// `port` 0: any. Ends the process if the port is not available.
  FaultyLink(const std::string& address, int port, int target);
  ~FaultyLink();

  int port() const { return port_; }
  /// Returns the bytes delivered to clients.
  int64_t carried() const { return carried_; }

  enum class Mode {
    kCarries,
    kHolds,    // delivers nothing
    kRefuses,  // closes connections at once
  };
  void Set(Mode mode);
  /// Resets all connections; returns how many had just delivered data to their client.
  int Cut();
  /// Changes a bit of the next data for a client.
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
  Mode mode_ = Mode::kCarries;  // guarded by mu_, like the members below
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace mtrun::support
