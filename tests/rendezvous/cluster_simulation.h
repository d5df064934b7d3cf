// A job's state machine with simulated agents around it, in simulated time: events are built from short
// words, every step is checked against the list of properties. A value: copies are independent worlds
// (exploration copies it at every branch).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/state_machine.h"
#include "tests/rendezvous/properties.h"

namespace mtrun::rendezvous {

class ClusterSimulation {
 public:
  /// `run`: worlds of one number make generations of one run.
  explicit ClusterSimulation(JobSettings settings, Duration recovery_window = Duration::zero(),
                             bool host_begins = false, uint64_t run = 1);

  /// Each returns the effects as text lines, and remembers the first broken property.
  std::vector<std::string> Open(const std::string& node, Generation seen = {}, int seen_restarts = 0,
                                int seen_refunds = 0, std::optional<Assignment> last = std::nullopt);
  std::vector<std::string> OpenWith(const std::string& node, const JobSettings& settings);
  std::vector<std::string> Close(const std::string& node, const std::string& why = "connection reset");
  std::vector<std::string> Beat(const std::string& node, Duration main_loop_age = Duration::zero());
  std::vector<std::string> Say(const std::string& node, AgentEvent event,
                               std::optional<Assignment> held = std::nullopt);
  std::vector<std::string> OfferFrom(const std::string& node, int workers = 1,
                                     std::optional<int> node_rank = std::nullopt, bool ends_step = false,
                                     bool leaves = false);
  /// An offer from before the node's last assignment, delivered late.
  std::vector<std::string> StaleOfferFrom(const std::string& node);
  std::vector<std::string> Fail(const std::string& node, int exit_code = 1, int signal = 0,
                                bool early = false, int64_t failed_at_ns = 0);
  /// One of the node's workers reports broken collectives of the newest generation it was assigned.
  std::vector<std::string> Break(const std::string& node, bool unconnected = false);
  /// The node holds this from an earlier service.
  void Remember(const std::string& node, const Assignment& held) { assignments_[node] = held; }
  /// What a look at the job's other services found.
  std::vector<std::string> Look(ProbeResult looked) { return Step(Event{"", std::move(looked)}); }
  /// Somebody asks, unless the service refuses: then that is the only line.
  std::vector<std::string> Control(ControlQuestion question);
  /// An operator evicts this host or node, unless the service refuses: then that is the only line.
  std::vector<std::string> Evict(const std::string& name);
  std::vector<std::string> Finish(const std::string& node, bool final = false);
  std::vector<std::string> Leave(const std::string& node);
  std::vector<std::string> Wait(const std::string& node, const std::string& key);
  std::vector<std::string> Set(const std::string& node, const std::string& key, const std::string& value);
  /// Time passes in steps of at most a heartbeat; ticks come exactly when due; connected nodes beat unless
  /// silent.
  std::vector<std::string> Advance(Duration duration);
  /// To the next deadline, nobody beating before it.
  std::vector<std::string> TickAtDeadline();
  /// A jump without ticks or heartbeats, as when the service's machine was stopped; then one late tick.
  std::vector<std::string> Stall(Duration duration);

  void Silence(const std::string& node) { silent_.insert(node); }
  void Wake(const std::string& node) { silent_.erase(node); }

  const std::optional<std::string>& broken() const { return broken_; }
  const JobMachine& machine() const { return machine_; }
  JobMachine& machine() { return machine_; }
  TimePoint now() const { return now_; }
  Generation generation() const { return machine_.View(now_).generation; }
  /// The last assignment that each node was sent.
  const std::map<std::string, Assignment>& assignments() const { return assignments_; }
  /// The machine's state for people.
  std::string Text() const { return machine_.Describe(now_); }
  /// Equal worlds behave alike from here on.
  bool operator==(const ClusterSimulation&) const = default;

 private:
  std::vector<std::string> Step(const Event& event);
  Offer MakeOffer(const std::string& node) const;

  JobSettings settings_;
  TimePoint now_;
  JobMachine machine_;
  PropertyChecker checker_;
  std::set<std::string> connected_, silent_;
  std::map<std::string, Assignment> assignments_;
  std::optional<std::string> broken_;
  int64_t next_id_ = 1;
};

}  // namespace mtrun::rendezvous
