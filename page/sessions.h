// Login sessions and limits on wrong passwords. Time is an argument, randomness is injected.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "page/passwords.h"

namespace mtrun::page {

/// One login, shared with the streams that end with it. Thread-safe.
class Session {
 public:
  Session(Role role, TimePoint ends) : role_(role), ends_(ends) {}

  Role role() const { return role_; }
  TimePoint ends() const { return ends_; }
  void End() { ended_ = true; }
  bool HasEnded(TimePoint now) const { return ended_ || ends_ <= now; }

 private:
  const Role role_;
  const TimePoint ends_;
  std::atomic<bool> ended_ = false;
};

class Sessions {
 public:
  static constexpr Duration kLength = std::chrono::hours(12);
  static constexpr size_t kMost = 256;  // above, the oldest is ended, an operator's after all viewers'

  /// Begins a session; `token` must be random.
  void Begin(const std::string& token, Role role, TimePoint now);
  /// Returns null if the token is unknown or its session has ended.
  std::shared_ptr<const Session> Find(const std::string& token, TimePoint now) const;
  void End(const std::string& token);

 private:
  // By the token's digest, so that the time of a search reveals nothing about a token.
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

/// Limits wrong passwords. Attempts per address, and for all addresses together, are restored over time.
class Attempts {
 public:
  static constexpr int kEach = 5, kAll = 100;
  static constexpr Duration kBackEach = std::chrono::seconds(12), kBackAll = std::chrono::milliseconds(100);
  static constexpr size_t kMaxPeers = 1024;  // tracked; all further addresses share one bucket

  /// Takes an attempt; returns false if none is left.
  bool Take(const std::string& peer, TimePoint now);

 private:
  struct Bucket {
    double left = 0;
    TimePoint at;
  };
  static bool TakeFrom(Bucket& bucket, int most, Duration back, TimePoint now);
  Bucket& Of(const std::string& peer, TimePoint now);

  std::map<std::string, Bucket> peers_;
  Bucket all_{kAll, {}}, others_{kEach, {}};
};

}  // namespace mtrun::page
