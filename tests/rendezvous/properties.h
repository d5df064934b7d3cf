// Properties that a job's state machine must always have: one list, checked by the golden scripts, the
// exhaustive exploration and the random walks. It observes events and effects from outside, with its own
// memory.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {

class PropertyChecker {
 public:
  explicit PropertyChecker(JobSettings settings) : settings_(std::move(settings)) {}

  /// Call after each Step. Returns the first broken property as text, or nothing if all hold.
  std::optional<std::string> Observe(const Event& event, const std::vector<Effect>& effects,
                                     const JobMachine& machine, TimePoint now);
  /// Allows for a stop of the service's machine: silence is judged that much later.
  void Excuse(Duration stopped) { excused_ += stopped; }
  bool operator==(const PropertyChecker&) const = default;

 private:
  void BeforeEffects(const Event& event);
  void OnHeartbeat(const std::string& node_id, const JobMachine& machine);
  void OnHeld(const std::string& node_id, const Assignment& held);
  void On(const Send& send);
  void On(const CloseSession& close);
  void On(const LogLine&) {}
  void OnAssigned(const std::string& node_id, const Assignment& assignment);
  void OnDissolved(const std::string& node_id, const GenerationDissolved& dissolved);
  void OnBudget(const BudgetChanged& budget);
  void OnEnded(const std::string& node_id, const JobEnded& ended);
  void CheckDone();
  void CheckMajority();
  void CheckOver();
  void BeginLast(const Assignment& last, TimePoint heard);
  void OnReply(const std::string& node_id, const StoreReply& reply);
  void AfterEffects(const JobMachine& machine, TimePoint now);
  /// Refunds let the count of failures grow beyond the budget.
  bool OverBudget(int restarts) const {
    return settings_.refund_steps == 0 && restarts > settings_.max_restarts;
  }
  void Broken(std::string what) {
    if (!broken_) broken_ = std::move(what);
  }

  JobSettings settings_;
  std::optional<std::string> broken_;
  uint64_t highest_ = 0;  // highest number that was assigned or held
  uint64_t seen_ = 0;     // highest number that any agent named: a service continues after it
  std::optional<Assignment> live_;
  std::set<std::string> told_;                 // members of live_ that have got their Assigned
  std::map<std::string, Generation> running_;  // what each node believes to run
  std::set<std::pair<std::string, int64_t>> waiting_;
  std::set<std::string> present_;   // nodes with a session
  std::set<std::string> expected_;  // nodes that others have reported, without a session so far
  std::set<std::string> ended_told_;
  bool ended_ = false;
  std::optional<Assignment> last_;  // the last generation that the machine formed or adopted
  std::set<std::string> left_;      // nodes that left, were refused or were evicted since it began
  std::set<std::string> dead_;      // nodes whose agents were found gone since it began
  std::set<std::string> out_;  // nodes that offered again, or with a failed or broken worker, since it began
  std::set<std::string> answered_;          // nodes that once answered at their presence ports
  std::map<std::string, TimePoint> heard_;  // when the node's lease was last renewed
  // sending time of the node's last answered Hello or heartbeat
  std::map<std::string, TimePoint> answered_at_;
  TimePoint now_, began_;
  Generation formed_;                                     // the last one formed here
  std::map<Generation, std::set<std::string>> finished_;  // members that reported finished workers
  std::set<Generation> safe_;                             // a member reported that its result is safe
  bool ended_elsewhere_ = false;
  Duration excused_ = Duration::zero();
  int restarts_ = 0;
};

}  // namespace mtrun::rendezvous
