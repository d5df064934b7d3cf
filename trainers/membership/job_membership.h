// A worker's membership in its job: under mtrun the agent gives the next assignment when a generation ends;
// by hand there is one for life; or the worker is alone. Training thread only, unless Membership says
// otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/lease_page.h"
#include "base/worker_client.h"
#include "base/worker_env.h"
#include "trainers/collectives/device_group.h"
#include "trainers/membership/agent_connection.h"
#include "trainers/membership/membership.h"
#include "trainers/membership/step_times_mean.h"
#include "trainers/membership/wait_watch.h"

namespace mtrun::trainers {

class AgentLink;
class WaitReporter;

class JobMembership final : public Membership {
 public:
  /// Makes a membership that has not joined. If `device` is a GPU, its groups sum that device's tensors too;
  /// with `devices`, the tensors that those take. Its workers listen on ports of MTRUN_PORT_RANGE.
  static absl::StatusOr<std::unique_ptr<JobMembership>> Make(const EnvironmentMap& environment,
                                                             at::Device device,
                                                             collectives::Protection protection,
                                                             collectives::DeviceMaker devices = nullptr);
  /// Reports that this worker is ready, connects to the agent and to the other workers, and waits for all of
  /// them. Call it once. Before, `assignment` is the environment's. `agent`: an open connection, or null.
  absl::Status Join(const EnvironmentMap& environment, std::unique_ptr<AgentConnection> agent = nullptr);
  ~JobMembership() override;

  const Assignment& assignment() const override { return assignment_; }
  uint64_t generation() const override { return generation_; }
  const collectives::ProcessGroup& group() const override { return group_; }
  TimePoint assigned_at() const override { return assigned_at_; }
  TimePoint connected_at() const override { return connected_at_; }

  /// Returns true under mtrun.
  bool elastic() const override { return elastic_; }
  absl::Status Regroup(const absl::Status& why) override;
  bool wants_regroup() const override;
  bool generation_is_over() const override;
  /// Returns false if there is no lease (MTRUN_LEASE).
  bool lease_is_over() const override;
  bool lease_lapsed() const override { return lease_lapsed_; }
  bool outside_lease_is_over() const override;
  bool wants_drain() const override;
  std::string drain_wish() const override;
  std::optional<TimePoint> told_to_go_at() const override;
  bool work_is_done() const override;
  bool others_continue() const override;
  bool next_is_here() const override;

  /// Report to the agent and ignore its loss. No-ops without mtrun.
  void ReportProgress(int64_t epoch, int64_t step, int64_t samples) override;
  void ReportTimes(const channel::StepTimes& times) override;
  void ReportLeaving(std::string_view why) override;
  absl::Status ReportDone(int64_t step) override;

 private:
  JobMembership(Assignment assignment, at::Device device, collectives::DeviceMaker devices,
                const collectives::Wire& wire, bool elastic);
  /// Returns a watch that ends the bootstrap's waits soon after a drain request.
  WaitWatch GiveUpWhenDrained() const;
  absl::StatusOr<collectives::ProcessGroup> ConnectGroup(const collectives::GroupMember& member) const;
  absl::Status ConnectAgent(const WorkerEnv& worker);
  absl::Status ConnectByHand(const WorkerEnv& worker, bool agent_serves);
  absl::StatusOr<channel::Assignment> NextAssignment(const absl::Status& why);
  absl::Status Enter(const channel::Assignment& given);

  const at::Device device_;
  const collectives::DeviceMaker devices_;
  const collectives::Wire wire_;
  const bool elastic_;
  std::optional<LeasePage> lease_;  // constant after ConnectAgent
  Assignment assignment_;
  uint64_t generation_ = 1;
  channel::Generation entered_;
  std::atomic<uint64_t> leased_ = 0;  // id of entered_
  bool lease_lapsed_ = false;         // of the last generation that had connected
  bool connected_ = false;            // the entered generation has connected
  TimePoint assigned_at_, connected_at_;
  std::unique_ptr<AgentConnection> connection_;
  std::shared_ptr<AgentLink> agent_link_;  // the connection's, null if there is none; so is agent_
  WorkerClient* agent_ = nullptr;
  std::shared_ptr<collectives::Bootstrap> bootstrap_;
  collectives::ProcessGroup group_;
  std::optional<TimePoint> told_progress_;
  StepTimesMean times_;
  std::unique_ptr<WaitReporter> waits_;  // reads the group and the lease: destroyed first
};

}  // namespace mtrun::trainers
