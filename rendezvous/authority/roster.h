// The nodes of one job as its service knows them: the last offer of each, until when it counts as alive, and
// its name for people. Nodes change only through this class, so that its indexes stay consistent. Pure: time
// is an argument. A value; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/authority/attendance.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/node_facets.h"
#include "rendezvous/authority/roster_index.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

struct RosterNode {
  std::optional<Offer> offer;  // its last offer
  bool offered = false;        // ready for the next generation
  bool starting = false;       // its last offer had no workers yet
  bool kept_out = false;       // from the next generation, see Separations
  bool connected = false;
  bool confirmed = false;    // runs the last generation for certain (at first unset if it was adopted)
  bool greeted = false;      // has sent an offer over its stream to this record
  bool expected = false;     // so far known only as a member of an adopted generation
  bool ordinary = false;     // not all its workers have said that they outlive a generation
  bool refused = false;      // since its stream ended its host has refused its presence port
  bool with_host = false;    // R8: when it came, its last host was dead and had not been able to lose it
  std::optional<int> place;  // node_rank in the last generation
  uint64_t arrival = 0;      // grows with each offer
  uint64_t joined = 0;       // number of its first generation, 0: none yet
  TimePoint lost_at;         // end of its lease if connected, else of the grace for coming back
  TimePoint heard_at;
  int extensions = 0;  // extensions of its lease in a row
  Duration main_loop_age = Duration::zero();
  std::string note;
  TimePoint noted_at;
  NodeLost closed_why;
  std::string told;               // text of the last Waiting sent to it
  Generation knows;               // the newest membership that was sent to it
  uint64_t run = 0;               // incarnation of the run that it knew when it came, 0 for none
  uint64_t seen = 0;              // number of its newest generation, as reported when it came
  std::vector<AgentEvent> early;  // reports about a generation that may still be adopted

  /// True if it is a candidate: a node that was told to go only as a survivor, with perhaps the newest state.
  bool ready() const { return offered && connected && !kept_out && (place || !offer->leaves); }
  /// True if, as far as is known, its workers are not ready yet.
  bool waits_for_workers() const { return starting && connected && !ready(); }
  bool operator==(const RosterNode&) const = default;
};

class Roster {
 public:
  static constexpr Duration kStuckMainLoop = std::chrono::seconds(10);  // an older age is reported, once
  static constexpr size_t kFewNodes = 32;   // with more nodes, texts name few, and by their hosts
  static constexpr int kMaxExtensions = 8;  // late ticks in a row that spare one silent node
  using Nodes = std::map<std::string, RosterNode>;
  struct Lost {
    std::string node_id;
    NodeLost why;
    bool operator==(const Lost&) const = default;
  };

  explicit Roster(const JobSettings& settings);

  bool empty() const { return nodes_.empty(); }
  size_t size() const { return nodes_.size(); }
  const Nodes& nodes() const { return nodes_; }
  const RosterNode* Find(const std::string& node_id) const;
  /// Returns the host if that names one node only, else the id.
  std::string Name(const std::string& node_id) const;
  /// Returns a cause of this kind about the node.
  Cause About(const std::string& node_id, Cause::Kind kind) const {
    return {node_id, Name(node_id), std::move(kind)};
  }
  /// Applies `change(node)`, which may change any field. REQUIRES: the node is here.
  template <typename Edit>
  void Change(const std::string& node_id, Edit change) {
    RosterNode& node = nodes_.at(node_id);
    const NodeFacets before = FacetsOf(node);
    change(node);
    Reindex(node_id, before, FacetsOf(node));
  }
  void Erase(const std::string& node_id);
  /// Removes all nodes and returns them.
  Nodes TakeAll();

  // ---- events of nodes ----
  /// Notes that the node's stream has been opened, for the first time or again.
  void Open(const std::string& node_id, TimePoint now);
  void Close(const std::string& node_id, const NodeLost& why, TimePoint now);
  /// Notes a message of the node, which restarts its lease. A node whose stream is broken has only its grace.
  void Touch(const std::string& node_id, TimePoint now);
  /// The same, if the node is here. Returns true if its main loop has just become stuck.
  bool Beat(const std::string& node_id, const Heartbeat& beat, TimePoint now);
  /// Takes an offer for the next generation; an offer without workers only says that they are starting.
  void TakeOffer(const std::string& node_id, const Offer& offer);

  // ---- generations ----
  /// Takes this as the last generation; empty for none.
  void Follow(const std::optional<Assignment>& generation);
  /// Clears the places of all nodes in the last generation.
  void ClearPlaces();
  /// Puts the node into the generation that begins.
  static void Assign(RosterNode& node, const Member& member, uint64_t generation);
  /// Adds a member of an adopted generation, as reported by others, which may come until `lost_at`.
  void Expect(const Member& member, TimePoint lost_at, TimePoint now);
  /// Adds all members of a generation that an earlier service formed.
  void ExpectAll(const Assignment& generation, TimePoint lost_at, TimePoint now);
  /// Limits the wait for expected members that have not come.
  void ExpectUntil(TimePoint lost_at);
  /// The presence of the last generation's members here.
  const Attendance& attendance() const { return attendance_; }
  const RosterIndex& index() const { return index_; }
  /// R1: returns a node that was in a generation beyond `number` and has not yet said whether it still runs it;
  /// "" for none. It is about to say so, or to be lost.
  std::string YetToSay(uint64_t number) const;
  /// Returns nodes that came from another run than this one and are not in its last generation.
  std::vector<std::string> OfOtherRuns(const JobRun& run, const GenerationRecord& generation) const;
  /// True if another node can still run the program: a node that was in a generation before this one was in
  /// any, or any other node if the job has made steps.
  bool RunsWithout(const std::string& node_id, bool progressed) const;
  /// Returns the nodes' part of a formation. If `whole` is false, ready nodes are only counted: enough for
  /// every decision but to form.
  FormationInput Candidates(bool whole) const;

  // ---- leases ----
  /// Returns when the next node is lost unless it sends something.
  std::optional<TimePoint> NextLoss() const;
  /// Returns why the node is lost, if it is.
  NodeLost WhyLost(const std::string& node_id, TimePoint now) const;
  /// Returns the nodes whose time is over, with the reason, in order of ids; every node if `all`.
  std::vector<Lost> Expired(bool all, TimePoint now) const;
  /// Sets the time at which the node is lost unless it sends something.
  void PutOffLoss(const std::string& node_id, TimePoint lost_at);
  /// Handles a tick that was late by `late`: this machine was stopped or overloaded, and messages of nodes
  /// may still be unread. A machine that is always late must still find the dead.
  void ExtendLeases(Duration late, TimePoint now);

  /// True if the indexes match the nodes and the followed generation. Takes as long as building them.
  bool Consistent(const std::optional<Assignment>& generation) const;
  /// Returns a line for each node in the order of arrival, with times relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const Roster&) const = default;

 private:
  void Touch(const std::string& node_id, RosterNode& node, TimePoint now);
  static NodeFacets FacetsOf(const RosterNode& node);
  void Reindex(const std::string& node_id, const NodeFacets& before, const NodeFacets& after);
  std::string ShortName(const std::string& node_id) const;
  std::vector<std::string> FewNames(const RosterIndex::Ids& node_ids) const;

  // Constant after construction.
  Duration heartbeat_interval_, lease_, reconnect_grace_;

  Nodes nodes_;
  RosterIndex index_;      // index of nodes_
  Attendance attendance_;  // members of the last generation among nodes_
  uint64_t arrivals_ = 0;
};

}  // namespace mtrun::rendezvous
