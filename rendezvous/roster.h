// The nodes of one job as its service knows them: what each offered last, until when it counts as alive, and
// how people call it. Nodes change through it alone, so that its indexes follow. Pure: time is an argument. A
// value; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/attendance.h"
#include "rendezvous/formation.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/job_run.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/node_facets.h"
#include "rendezvous/roster_index.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

struct RosterNode {
  std::optional<Offer> offer;  // the last one
  bool offered = false;        // ready for the next generation
  bool starting = false;       // its last offer had no workers yet
  bool kept_out = false;       // of the next generation, see Separations
  bool connected = false;
  bool confirmed = false;    // runs the last generation for certain (a member of an adopted one not at first)
  bool greeted = false;      // has sent an offer over its stream to this record
  bool expected = false;     // known only as a member of an adopted generation so far
  bool with_host = false;    // when it came, its last host was dead and had not been able to lose it
  std::optional<int> place;  // node_rank in the last generation
  uint64_t arrival = 0;      // grows with each offer
  uint64_t joined = 0;       // number of the first generation it was in, 0: none yet
  TimePoint lost_at;         // end of its lease (connected) or of the grace for coming back (not)
  TimePoint heard_at;
  int extensions = 0;  // of its lease, in a row
  Duration main_loop_age = Duration::zero();
  std::string note;
  TimePoint noted_at;
  std::string closed_why;
  std::string told;               // the last Waiting it was sent
  Generation knows;               // the newest membership that it was sent
  uint64_t run = 0;               // incarnation of the run that it knew when it came, 0 for none
  uint64_t seen = 0;              // number of the newest generation that it was in, as it said when it came
  std::vector<AgentEvent> early;  // reports about a generation that may yet be adopted

  /// A node that was told to go is a candidate only as a survivor, whose state may be the newest.
  bool ready() const { return offered && connected && !kept_out && (place || !offer->leaves); }
  /// As far as it is known, its workers are not ready yet.
  bool waits_for_workers() const { return starting && connected && !ready(); }
  bool operator==(const RosterNode&) const = default;
};

class Roster {
 public:
  static constexpr Duration kStuckMainLoop = std::chrono::seconds(10);  // reported, once, from this age on
  static constexpr size_t kFewNodes = 32;   // beyond it texts name few nodes, and by their hosts
  static constexpr int kMaxExtensions = 8;  // late ticks in a row that spare one silent node
  using Nodes = std::map<std::string, RosterNode>;
  struct Lost {
    std::string node_id, why;
    bool operator==(const Lost&) const = default;
  };

  explicit Roster(const JobSettings& settings);

  bool empty() const { return nodes_.empty(); }
  size_t size() const { return nodes_.size(); }
  const Nodes& nodes() const { return nodes_; }
  const RosterNode* Find(const std::string& node_id) const;
  /// The host where that names one node only, else its id.
  std::string Name(const std::string& node_id) const;
  /// `change(node)` changes what it likes. REQUIRES: the node is here.
  template <typename Edit>
  void Change(const std::string& node_id, Edit change) {
    RosterNode& node = nodes_.at(node_id);
    const NodeFacets before = FacetsOf(node);
    change(node);
    Reindex(node_id, before, FacetsOf(node));
  }
  void Erase(const std::string& node_id);
  /// Hands out all of them.
  Nodes TakeAll();

  // ---- what nodes do ----
  /// Its stream is there, for the first time or again.
  void Open(const std::string& node_id, TimePoint now);
  void Close(const std::string& node_id, const std::string& why, TimePoint now);
  /// It was heard of: its lease begins again. A broken stream is judged by its grace alone.
  void Touch(const std::string& node_id, TimePoint now);
  /// The same, if it is here. True when its main loop has just become stuck.
  bool Beat(const std::string& node_id, Duration main_loop_age, const std::string& note, TimePoint now);
  /// An offer for the next generation; one without workers only says that they are starting.
  void TakeOffer(const std::string& node_id, const Offer& offer);

  // ---- generations ----
  /// From now on it is the last one, nothing for none.
  void Follow(const std::optional<Assignment>& generation);
  /// Nobody has a place in the last generation.
  void ClearPlaces();
  /// The node is in the generation that begins.
  static void Assign(RosterNode& node, const Member& member, uint64_t generation);
  /// A member of an adopted generation, as others report it; until `lost_at` it may come.
  void Expect(const Member& member, TimePoint lost_at, TimePoint now);
  /// All members of a generation that an earlier service formed.
  void ExpectAll(const Assignment& generation, TimePoint lost_at, TimePoint now);
  /// Members that are expected and have not come may do so until then, and no longer.
  void ExpectUntil(TimePoint lost_at);
  /// How far the members of the last generation are here.
  const Attendance& attendance() const { return attendance_; }
  const RosterIndex& index() const { return index_; }
  /// A node that was in a generation beyond `number`, and has yet to say whether it still runs it; "" for
  /// none. It is about to, or to be lost.
  std::string YetToSay(uint64_t number) const;
  /// Nodes that came from another run than this one and are not in its last generation.
  std::vector<std::string> OfOtherRuns(const JobRun& run, const GenerationRecord& generation) const;
  /// Another node can still run the program: one that was in a generation before this one was in any, or just
  /// any other when the job has made steps.
  bool RunsWithout(const std::string& node_id, bool progressed) const;
  /// The nodes' part of a formation. Without `whole` the ready ones are only counted: enough for every
  /// decision but to form.
  FormationInput Candidates(bool whole) const;

  // ---- leases ----
  /// When the next node is lost unless it is heard.
  std::optional<TimePoint> NextLoss() const;
  /// Whose time is over, and why they count as lost, in order of ids; with `all` every node.
  std::vector<Lost> Expired(bool all, TimePoint now) const;
  /// A tick came late by `late`: this machine was stopped or overloaded, and nodes may have spoken without
  /// being heard yet. A machine that is always late must still find the dead.
  void ExtendLeases(Duration late, TimePoint now);

  /// The indexes are those of its nodes and of the generation that it follows. Takes as long as making them.
  bool Consistent(const std::optional<Assignment>& generation) const;
  /// A line a node in the order of arrival, times relative to `now`.
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
  RosterIndex index_;      // of nodes_
  Attendance attendance_;  // of nodes_ and the last generation
  uint64_t arrivals_ = 0;
};

}  // namespace mtrun::rendezvous
