// The members of the last generation that are silent although their loss is put off: the generation is that
// of an ordinary program, so its end costs all progress since the last checkpoint, and a link or a machine
// may only have stopped for a while (docs/protocol.md, "Losing a node"). Pure; a value, not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/authority/departures.h"
#include "rendezvous/authority/membership_view.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/job/effect_list.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {

class Suspects {
 public:
  explicit Suspects(const JobSettings& settings)
      : min_nodes_(static_cast<size_t>(settings.min_nodes)),
        lost_after_(settings.OrdinaryLostAfter()),
        min_nodes_timeout_(settings.min_nodes_timeout),
        leases_end_(settings.fence_timeout > Duration::zero()) {}

  bool empty() const { return silent_.empty(); }
  size_t size() const { return silent_.size(); }
  /// The number of them whose stream had ended when their loss was put off.
  size_t fallen() const { return fallen_; }
  bool Has(const std::string& node_id) const { return silent_.contains(node_id); }
  /// True if the node is suspected: silent for longer than a node that the job can do without.
  bool Suspected(const std::string& node_id) const {
    const auto silent = silent_.find(node_id);
    return silent != silent_.end() && silent->second.told;
  }

  /// Puts the loss of a node off whose time is over; returns false if it is lost now. `quorum`: the members
  /// that the next generation needs.
  bool PutOff(const std::string& node_id, const MembershipView& view, size_t quorum, Roster* roster,
              EffectList* effects, TimePoint now);
  /// Returns those whose loss cannot be put off any longer after a change of the job.
  std::vector<std::string> Settle(const MembershipView& view, size_t quorum, TimePoint now);
  /// Notes a message of the node: it is back.
  void OnHeard(const std::string& node_id, const MembershipView& view, EffectList* effects, TimePoint now);
  void Erase(const std::string& node_id);
  void Clear();

  std::string Describe() const;
  bool operator==(const Suspects&) const = default;

 private:
  struct Silent {
    TimePoint since;      // its last message
    bool here = false;    // it has sent an offer to this service
    bool fallen = false;  // its stream had ended when its loss was put off
    bool told = false;    // the log says that it is suspected
    bool operator==(const Silent&) const = default;
  };
  /// What all decisions depend on, beside the node and the time.
  struct Ground {
    Generation generation;
    bool running = false, ordinary = false, result_safe = false, can_continue = false;
    bool operator==(const Ground&) const = default;
  };

  void Count(const Silent& silent, int sign);
  Ground GroundOf(const MembershipView& view, size_t quorum) const;
  /// Returns until when the node's loss is put off; empty if it is not.
  std::optional<TimePoint> Until(const std::string& node_id, const MembershipView& view, const Ground& ground,
                                 TimePoint now) const;
  void Tell(const std::string& node_id, Silent* silent, TimePoint until, const MembershipView& view,
            EffectList* effects, TimePoint now) const;

  // Constant after construction.
  size_t min_nodes_;
  Duration lost_after_, min_nodes_timeout_;
  bool leases_end_;

  std::map<std::string, Silent> silent_;
  size_t here_ = 0, fallen_ = 0;  // the numbers of those in silent_
  Ground settled_;                // at the last Settle
};

}  // namespace mtrun::rendezvous
