// Who is logged in, and who has tried too often. Values; time is an argument, randomness comes from outside.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "page/passwords.h"

namespace mtrun::page {

struct Session {
  Role role = Role::kViewer;
  std::string csrf;  // stands in what its page sends
  TimePoint ends;
};

class Sessions {
 public:
  static constexpr Duration kLength = std::chrono::hours(12);
  static constexpr size_t kMost = 256;  // the oldest makes room

  /// `cookie` and `csrf`: random.
  void Begin(const std::string& cookie, const std::string& csrf, Role role, TimePoint now);
  /// Nothing for a cookie that was never given, or long ago.
  std::optional<Session> Find(const std::string& cookie, TimePoint now) const;
  void End(const std::string& cookie) { sessions_.erase(cookie); }

 private:
  std::map<std::string, Session> sessions_;  // by cookie
};

/// Each address has some attempts to give a wrong password, which come back with time; so have all together.
class Attempts {
 public:
  static constexpr int kEach = 5, kAll = 100;
  static constexpr Duration kBackEach = std::chrono::seconds(12), kBackAll = std::chrono::milliseconds(100);
  static constexpr size_t kMostPeers = 1024;  // kept; beyond them all count as one

  /// Whether it had one left, which is gone now.
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
