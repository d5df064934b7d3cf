// A job whose workers are threads of the test's process: memberships over the real CPU group, without
// launcher, agents or processes. A generation starts when all current members wait for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/lease_page.h"
#include "tests/trainers/support/fake_device.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/membership/membership.h"

namespace mtrun::trainers::testing {

class ThreadMembership;

/// A job of threads. Thread-safe.
class ThreadJob {
 public:
  /// Starts with `members`; others arrive with Join.
  explicit ThreadJob(const std::set<int>& members) : members_(members) {}

  /// Adds devices to each generation (fake_device.h). Call it before the first generation.
  void UseDevices() { devices_ = true; }
  /// Makes each member a node. Call it before the first generation.
  void UseNodes() { nodes_ = true; }
  /// Makes the members manually started, which do not regroup. Call it before the first generation.
  void UseNoLauncher() { elastic_ = false; }
  /// Adds a member; the running generation is asked to end after a step.
  void Join(int member);
  /// Removes a member that has ended, in order or not; its generation is over.
  void Gone(int member);
  uint64_t generation() const;

 private:
  friend class ThreadMembership;
  struct Generation {
    uint64_t number = 0;
    std::map<int, int> ranks;  // by member
    std::shared_ptr<collectives::Bootstrap> bootstrap;
    std::shared_ptr<FakeNetwork> network;  // connects its devices
  };
  /// Waits until all members wait; returns the new generation, or nothing if no member is left.
  Generation Meet(int member);
  bool wants_regroup(uint64_t generation) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> members_, waiting_;  // this and the following: guarded by mutex_
  Generation current_;
  std::set<int> joining_;
  bool devices_ = false, nodes_ = false, elastic_ = true;
};

/// One member's view of the job, for use by that member's thread.
class ThreadMembership final : public Membership {
 public:
  /// Called by the member's thread after `finished_steps` steps.
  using Hook = std::function<void(ThreadMembership& self, int64_t finished_steps)>;

  ThreadMembership(ThreadJob& job, int member, Hook hook = nullptr)
      : job_(job), member_(member), hook_(std::move(hook)) {}

  /// Connects to the first generation.
  absl::Status Enter();
  /// Makes the collectives of this member, and therefore of the others, fail from now on.
  void BreakGroup() const;
  /// Makes the member's device report an error.
  void BreakDevice() const { network_->Break(assignment_.rank); }
  /// Delays the sums of the member's device by `delay`.
  void DelayDevice(Duration delay) const { network_->Delay(assignment_.rank, delay); }
  /// Informs the member that its generation is over, while its group still works.
  void EndGeneration() { over_ = true; }
  /// Informs the member that the others have finished the job's work without it.
  void EndWithSuccess() { over_ = work_is_done_ = true; }
  /// Informs the member that the job continues on other nodes.
  void LoseJobToOthers() { others_continue_ = true; }
  /// Informs the member that a generation with it has formed.
  void FormNext() { next_is_here_ = true; }
  /// Asks the member to finish its step and leave.
  void Drain() {
    if (!told_to_go_at_) told_to_go_at_ = MonotonicNow();
  }
  /// Expires the member's lease until FindService; `look` is called each time the member finds it expired.
  void LoseService(std::function<void()> look);
  void FindService() { lease_.Set(generation_, std::nullopt); }
  /// Makes the service answer outside the member's generation.
  void FindServiceOutside() { answers_outside_ = true; }
  /// Expires the lease for threads other than the member's from now on; each check by them calls `asked`.
  void LoseServiceElsewhere(std::function<void()> asked);
  /// Sets a callback for the moment when the member reports that it leaves.
  void OnLeaving(std::function<void()> look) { on_leaving_ = std::move(look); }
  /// Sets the result of the next ReportDone.
  void AnswerDone(std::function<absl::Status()> answer) { answer_done_ = std::move(answer); }

  const Assignment& assignment() const override { return assignment_; }
  uint64_t generation() const override { return generation_; }
  const collectives::ProcessGroup& group() const override { return group_; }
  TimePoint assigned_at() const override { return entered_at_; }
  TimePoint connected_at() const override { return entered_at_; }
  bool elastic() const override { return job_.elastic_; }
  absl::Status Regroup(const absl::Status& why) override;
  bool wants_regroup() const override { return job_.wants_regroup(generation_); }
  bool generation_is_over() const override { return over_; }
  bool lease_is_over() const override;
  bool outside_lease_is_over() const override { return !answers_outside_ && lease_is_over(); }
  bool wants_drain() const override { return told_to_go_at_.has_value(); }
  std::string drain_wish() const override { return told_to_go_at_ ? "told to go" : ""; }
  std::optional<TimePoint> told_to_go_at() const override { return told_to_go_at_; }
  bool work_is_done() const override { return work_is_done_; }
  bool others_continue() const override { return others_continue_; }
  bool next_is_here() const override { return next_is_here_; }
  void ReportProgress(int64_t epoch, int64_t step, int64_t samples) override;
  void ReportTimes(const channel::StepTimes& /*times*/) override {}
  void ReportLeaving(std::string_view why) override;
  absl::Status ReportDone(int64_t step) override;
  /// Returns the steps passed to ReportDone; empty before.
  std::optional<int64_t> done() const { return done_; }

 private:
  ThreadJob& job_;
  const int member_;
  const Hook hook_;
  Assignment assignment_;
  uint64_t generation_ = 0;
  collectives::ProcessGroup group_;
  std::shared_ptr<FakeNetwork> network_;
  TimePoint entered_at_;
  bool over_ = false, work_is_done_ = false, others_continue_ = false, next_is_here_ = false;
  std::optional<TimePoint> told_to_go_at_;
  std::function<void()> look_, asked_elsewhere_, on_leaving_;
  std::atomic<bool> over_elsewhere_ = false, answers_outside_ = false;
  const std::thread::id thread_ = std::this_thread::get_id();  // the member's
  LeasePage lease_ = *LeasePage::Make();
  std::optional<int64_t> done_;
  std::function<absl::Status()> answer_done_;
};

}  // namespace mtrun::trainers::testing
