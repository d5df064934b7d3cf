// Decides which file a fetcher fetches next. Clients list the files that they need in order; they are served
// in turns, and each file is fetched once even if several want it. Pure: the time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "datasets/remote/fetch_rules.h"

namespace mtrun::datasets {

/// A file of a set: {set, name in it}.
struct FetchId {
  std::string set;
  std::string file;
  auto operator<=>(const FetchId&) const = default;
};

class FetchPlan {
 public:
  explicit FetchPlan(size_t connections) : connections_(connections) {}

  /// Sets the files that a client of `set` wants, most urgent first; replaces its previous list. Files that
  /// are cached already must not be in it.
  void Want(int64_t client, const std::string& set, std::vector<std::string> files);
  void Leave(int64_t client);

  /// Returns the next file to fetch and marks it as under way. Returns nullopt if all allowed connections are
  /// busy, or if no file is wanted or all wanted files are paused.
  std::optional<FetchId> Next(TimePoint now);
  /// Returns when the next paused file can be tried. Returns nullopt if all connections are busy: check again
  /// when one of them ends.
  std::optional<TimePoint> NextLook(TimePoint now) const;

  /// Marks a file as fetched, so that it is not fetched again.
  void Done(const FetchId& id);
  /// Marks a failed file; another try is allowed from `when` on.
  void Pause(const FetchId& id, TimePoint when);
  /// Counts a failed try that ended with `end`; returns the failed tries since the file was last fetched.
  Tries CountTry(const FetchId& id, const TransferEnd& end) {
    tries_[id].Count(end);
    return tries_[id];
  }

  bool IsWanted(const FetchId& id) const;
  bool under_way(const FetchId& id) const { return busy_.count(id) != 0; }
  size_t busy() const { return busy_.size(); }
  bool operator==(const FetchPlan&) const = default;

 private:
  struct Client {
    std::string set;
    std::vector<std::string> files;
    bool operator==(const Client&) const = default;
  };
  const std::string* FirstOf(const Client& client, TimePoint now) const;

  size_t connections_;
  std::map<int64_t, Client> clients_;
  int64_t last_served_ = -1;
  std::set<FetchId> busy_;
  std::map<FetchId, TimePoint> paused_;
  std::map<FetchId, Tries> tries_;
};

}  // namespace mtrun::datasets
