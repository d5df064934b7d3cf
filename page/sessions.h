// Login sessions and limits on wrong passwords. Values; time is an argument, randomness is injected.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "page/passwords.h"

namespace mtrun::page {

struct Session {
  Role role = Role::kViewer;
  std::string csrf;  // the page sends it with every change
  TimePoint ends;
};

class Sessions {
 public:
  static constexpr Duration kLength = std::chrono::hours(12);
  static constexpr size_t kMost = 256;  // above, the oldest is dropped

  /// Begins a session; `cookie` and `csrf` must be random.
  void Begin(const std::string& cookie, const std::string& csrf, Role role, TimePoint now);
  /// Returns nothing if the cookie is unknown or expired.
  std::optional<Session> Find(const std::string& cookie, TimePoint now) const;
  void End(const std::string& cookie) { sessions_.erase(cookie); }

 private:
  std::map<std::string, Session> sessions_;  // by cookie
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
