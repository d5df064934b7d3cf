// A job whose workers are threads of the test's process: memberships over the real CPU group, without
// launcher, agents or processes. A generation begins when all members that there are wait for it.
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

/// Thread-safe.
class ThreadJob {
 public:
  /// Who there is from the beginning; others come with Join.
  explicit ThreadJob(const std::set<int>& members) : members_(members) {}

  /// Beside each generation's CPU group stand devices (fake_device.h). Before the first one.
  void UseDevices() { devices_ = true; }
  /// Each member is a node. Before the first generation.
  void UseNodes() { nodes_ = true; }
  /// Its members were started by hand: nobody regroups. Before the first generation.
  void UseNoLauncher() { elastic_ = false; }
  /// A newcomer: the running generation is asked to end after a step.
  void Join(int member);
  /// The member ends, as told or not; the generation that it was in is over.
  void Gone(int member);
  uint64_t generation() const;

 private:
  friend class ThreadMembership;
  struct Generation {
    uint64_t number = 0;
    std::map<int, int> ranks;  // by member
    std::shared_ptr<collectives::Bootstrap> bootstrap;
    std::shared_ptr<FakeNetwork> network;  // of its devices
  };
  /// Waits until all members wait; nothing when nobody is left to wait for.
  Generation Meet(int member);
  bool wants_regroup(uint64_t generation) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> members_, waiting_;  // this and the following: guarded by mutex_
  Generation current_;
  std::set<int> joining_;
  bool devices_ = false, nodes_ = false, elastic_ = true;
};

/// One member's view; for the thread that is the member.
class ThreadMembership final : public Membership {
 public:
  /// What the test does to the member after so many finished steps. Runs on the member's thread.
  using Hook = std::function<void(ThreadMembership& self, int64_t finished_steps)>;

  ThreadMembership(ThreadJob& job, int member, Hook hook = nullptr)
      : job_(job), member_(member), hook_(std::move(hook)) {}

  /// Connects to the first generation.
  absl::Status Enter();
  /// Its collectives fail from now on, and with them those of the others.
  void BreakGroup() const;
  /// Its device reports an error.
  void BreakDevice() const { network_->Break(assignment_.rank); }
  /// Its sums of the device end only so much later.
  void DelayDevice(Duration delay) const { network_->Delay(assignment_.rank, delay); }
  /// It hears that its generation is over, while its group still works.
  void EndGeneration() { over_ = true; }
  /// The others have finished the job's work while it was not among them.
  void EndWithSuccess() { over_ = work_is_done_ = true; }
  /// The agent says that the job continues on other nodes.
  void LoseJobToOthers() { others_continue_ = true; }
  /// A generation with it has formed.
  void FormNext() { next_is_here_ = true; }
  /// It wants to finish its step and go.
  void Drain() {
    if (!told_to_go_at_) told_to_go_at_ = MonotonicNow();
  }
  /// Its lease is over until FindService; `look` is called each time that the member finds it so.
  void LoseService(std::function<void()> look);
  void FindService() { lease_.Set(generation_, std::nullopt); }
  /// Outside of its generation the service has answered all the while.
  void FindServiceOutside() { answers_outside_ = true; }
  /// To other threads than the member's its lease is over from now on; each question of theirs calls `asked`.
  void LoseServiceElsewhere(std::function<void()> asked);
  /// `look` is called as it says that it leaves.
  void OnLeaving(std::function<void()> look) { on_leaving_ = std::move(look); }
  /// `answer` is what its next ReportDone comes to.
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
  /// Steps that ReportDone was told; nothing before.
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
