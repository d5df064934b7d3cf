// Members of a generation whose workers do not reach each other, although the service reaches both: which of
// their nodes stay out of the next one, and for how long. Pure: time is an argument. A value; not
// thread-safe.
//
// A pair alone says nothing about which of the two is cut off, so the reports of a moment are gathered: the
// node that is in most pairs stays out, of equal ones the one with the higher rank. A node stays out for a
// minute, then it is tried again, and each time that it fails for twice as long.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/effect_list.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class Separations {
 public:
  static constexpr Duration kGather = std::chrono::milliseconds(500);
  static constexpr Duration kFirstPause = std::chrono::minutes(1), kLongestPause = std::chrono::hours(1);
  static constexpr size_t kMaxPairs = 1024;  // later ones of the generation are ignored

  /// A worker of the member `from` reaches no worker of rank `peer` in the generation that runs.
  void OnUnreached(const std::string& from, int peer, const GenerationRecord& generation, TimePoint now);
  /// The members of the generation that runs have made a step together.
  void OnStep(const GenerationRecord& generation);
  /// Another generation begins, or none runs any more: what was reported of the last one is over.
  void Forget();

  /// Decides about what was reported, once it is gathered: marks nodes that stay out in `roster`, and those
  /// that need not any more. `least`: so many members must be left. Returns why the generation is to end, ""
  /// if it is not; where too few would be left all members hear which nodes do not reach each other.
  std::string Settle(const GenerationRecord& generation, size_t least, Roster* roster, EffectList* effects,
                     TimePoint now);
  /// When time alone changes something.
  std::optional<TimePoint> NextDeadline() const;

  /// "" while nothing was reported. Times relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const Separations&) const = default;

 private:
  using Pair = std::pair<std::string, std::string>;  // node ids, the lower rank first
  struct Out {
    std::set<std::string> others;  // that it does not reach
    Duration pause = Duration::zero();
    std::optional<TimePoint> ends;  // nothing while it takes part again
    bool operator==(const Out&) const = default;
  };

  std::set<std::string> Choose(const std::vector<Member>& members) const;
  void LetIn(Roster* roster, TimePoint now);
  std::string PairsText(const Roster& roster) const;

  std::set<Pair> pairs_;                // of the generation that runs
  std::optional<TimePoint> decide_at_;  // while they are gathered
  std::map<std::string, Out> out_;      // by node id
};

}  // namespace mtrun::rendezvous
