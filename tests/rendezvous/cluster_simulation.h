// Simulates a job's state machine with agents in simulated time: events are built from short words, and every
// step is checked against the list of properties. A value: copies are independent worlds (the exploration
// copies it at every branch).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/job/control_choice.h"
#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/properties.h"

namespace mtrun::rendezvous {

class ClusterSimulation {
 public:
  /// `run`: worlds with the same number make generations of the same run.
  explicit ClusterSimulation(JobSettings settings, Duration recovery_window = Duration::zero(),
                             bool host_begins = false, uint64_t run = 1);

  /// Each function returns the effects as text lines, and remembers the first broken property.
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
  /// Delivers late an offer from before the node's last assignment.
  std::vector<std::string> StaleOfferFrom(const std::string& node);
  std::vector<std::string> Fail(const std::string& node, int exit_code = 1, int signal = 0,
                                bool early = false, int64_t failed_at_ns = 0);
  /// Reports that collectives of the node's newest generation are broken.
  std::vector<std::string> Break(const std::string& node, bool unconnected = false);
  /// Makes the node hold this generation of an earlier service.
  void Remember(const std::string& node, const Assignment& held) { assignments_[node] = held; }
  /// Delivers the result of a probe of the job's other services.
  std::vector<std::string> Look(ProbeResult looked) { return Step(Event{"", std::move(looked)}); }
  /// Sends a request from outside; if the service refuses it, returns only that line.
  std::vector<std::string> Control(ControlQuestion question);
  /// Evicts this host or node; if the service refuses, returns only that line.
  std::vector<std::string> Evict(const std::string& name);
  std::vector<std::string> Finish(const std::string& node, bool final = false);
  std::vector<std::string> Leave(const std::string& node);
  std::vector<std::string> Wait(const std::string& node, const std::string& key);
  std::vector<std::string> Set(const std::string& node, const std::string& key, const std::string& value);
  /// Advances in steps of at most a heartbeat. Ticks come exactly when due; connected nodes send heartbeats
  /// unless they are silent.
  std::vector<std::string> Advance(Duration duration);
  /// Advances to the next deadline without heartbeats before it.
  std::vector<std::string> TickAtDeadline();
  /// Jumps without ticks or heartbeats, as if the service's machine was stopped; then sends one late tick.
  std::vector<std::string> Stall(Duration duration);

  void Silence(const std::string& node) { silent_.insert(node); }
  void Wake(const std::string& node) { silent_.erase(node); }
  /// Makes all nodes run an ordinary program: each says so when its stream is opened. Their presence ports are
  /// then known, too.
  void RunOrdinary() { ordinary_ = true; }

  const std::optional<std::string>& broken() const { return broken_; }
  const JobMachine& machine() const { return machine_; }
  JobMachine& machine() { return machine_; }
  TimePoint now() const { return now_; }
  Generation generation() const { return machine_.View(now_).generation; }
  /// The last assignment sent to each node.
  const std::map<std::string, Assignment>& assignments() const { return assignments_; }
  /// Returns the machine's state for people.
  std::string Text() const { return machine_.Describe(now_); }
  /// Equal worlds behave the same from here on.
  bool operator==(const ClusterSimulation&) const = default;

 private:
  std::vector<std::string> Step(const Event& event);
  Offer MakeOffer(const std::string& node) const;

  JobSettings settings_;
  TimePoint now_;
  JobMachine machine_;
  PropertyChecker checker_;
  std::set<std::string> connected_, silent_;
  bool ordinary_ = false;
  std::map<std::string, Assignment> assignments_;
  std::optional<std::string> broken_;
  int64_t next_id_ = 1;
};

}  // namespace mtrun::rendezvous
