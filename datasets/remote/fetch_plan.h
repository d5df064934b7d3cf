// What a fetcher fetches next: pure, the time is an argument. Clients say in which order they need the files
// of their sets; they are served in turns, each file once however many want it.
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

  /// What a client of `set` wants, most urgent first; replaces what it wanted before. Files that are there
  /// already are not to be among them.
  void Want(int64_t client, const std::string& set, std::vector<std::string> files);
  void Leave(int64_t client);

  /// The next file to fetch now: it counts as under way from here on. Nothing when as many connections as
  /// allowed are busy, when nothing is wanted, or when what is wanted pauses.
  std::optional<FetchId> Next(TimePoint now);
  /// When Next may have something that pauses now. Nothing while all connections are busy, too: the next
  /// look is when one of them ends.
  std::optional<TimePoint> NextLook(TimePoint now) const;

  /// A file is there; it is wanted no more.
  void Done(const FetchId& id);
  /// It is not, another try is allowed from `when` on.
  void Pause(const FetchId& id, TimePoint when);
  /// Those in vain since it was last there, with one that ends so now.
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
