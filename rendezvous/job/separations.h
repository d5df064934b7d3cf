// Decides which nodes stay out of the next generation, and for how long, if workers of two members do not
// reach each other although the service reaches both. Pure: time is an argument. A value; not thread-safe.
//
// A single pair does not show which of its nodes is cut off, so reports are gathered for a moment. Then the
// node in most pairs stays out, and of equal ones the one with the higher rank. After a minute it is tried
// again, and twice as late after each further failure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/job/effect_list.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class Separations {
 public:
  static constexpr Duration kGather = std::chrono::milliseconds(500);
  static constexpr Duration kFirstPause = std::chrono::minutes(1), kMaxPause = std::chrono::hours(1);
  static constexpr size_t kMaxPairs = 1024;  // further pairs of a generation are ignored

  /// Notes that a worker of the member `from` reaches no worker of rank `peer` in the running generation.
  void OnUnreached(const std::string& from, int peer, const GenerationRecord& generation, TimePoint now);
  /// Notes that the members of the running generation have made a step together.
  void OnStep(const GenerationRecord& generation);
  /// Forgets the reports about the last generation, because another one begins or none runs any more.
  void Forget();

  /// Decides about the gathered reports: marks in `roster` the nodes that stay out, and unmarks those that
  /// need not any more. `least`: the number of members that must be left. Returns why the generation is to
  /// end, empty if it is not. If too few would be left, all members learn which nodes do not reach each
  /// other.
  std::optional<NodesSeparated> Settle(const GenerationRecord& generation, size_t least, Roster* roster,
                                       EffectList* effects, TimePoint now);
  /// Returns when time alone changes something.
  std::optional<TimePoint> NextDeadline() const;

  /// Returns "" if nothing was reported. Times are relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const Separations&) const = default;

 private:
  using Pair = std::pair<std::string, std::string>;  // node ids, the lower rank first
  struct Out {
    std::set<std::string> others;  // nodes that it does not reach
    Duration pause = Duration::zero();
    std::optional<TimePoint> ends;  // empty if it is a candidate again
    bool operator==(const Out&) const = default;
  };

  std::set<std::string> Choose(const std::vector<Member>& members) const;
  void LetIn(Roster* roster, TimePoint now);
  NodesSeparated PairsOf(const Roster& roster) const;

  std::set<Pair> pairs_;                // in the running generation
  std::optional<TimePoint> decide_at_;  // set while they are gathered
  std::map<std::string, Out> out_;      // by node id
};

}  // namespace mtrun::rendezvous
