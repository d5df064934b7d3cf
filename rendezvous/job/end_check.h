// Decides whether a job can end after all members have finished. If some of them are not connected any more,
// they may have gone to another service. That one would wait for the others, which end here, and form another
// generation without them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// A value; not thread-safe.
class EndCheck {
 public:
  explicit EndCheck(const JobSettings& settings) : longest_(settings.LostAfter()) {}

  /// Returns whether a job ends whose members have all finished. `all_here`: no member can be at another
  /// service. Otherwise the other services are asked first, for at most as long as a member may be silent.
  bool MayEnd(bool all_here, TimePoint now);
  /// Takes the answers of the other services as of `seen`. Returns the one that has this generation, or a newer
  /// one, with authority: the members have gone there. Returns null if there is none.
  const PeerService* OnProbed(const std::vector<PeerService>& peers, const Generation& generation,
                              TimePoint seen);
  /// Another generation has begun, or this one is over.
  void Clear() { *this = EndCheck(longest_); }

  bool waits() const { return since_.has_value() && !answered_; }
  std::optional<TimePoint> due() const { return waits() ? std::optional(*since_ + longest_) : std::nullopt; }
  std::string Describe(TimePoint now) const;
  bool operator==(const EndCheck&) const = default;

 private:
  explicit EndCheck(Duration longest) : longest_(longest) {}

  Duration longest_;
  std::optional<TimePoint> since_;  // when all had finished and not all were here
  bool answered_ = false;           // all other services have answered since then
};

}  // namespace mtrun::rendezvous
