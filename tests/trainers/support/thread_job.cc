#include "tests/trainers/support/thread_job.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "tests/trainers/support/rank_threads.h"

namespace mtrun::trainers::testing {

void ThreadJob::Join(int member) {
  const std::lock_guard lock(mutex_);
  members_.insert(member);
  joining_.insert(member);
  changed_.notify_all();
}

void ThreadJob::Gone(int member) {
  const std::lock_guard lock(mutex_);
  members_.erase(member);
  waiting_.erase(member);
  changed_.notify_all();
}

uint64_t ThreadJob::generation() const {
  const std::lock_guard lock(mutex_);
  return current_.number;
}

bool ThreadJob::wants_regroup(uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  return generation == current_.number && !joining_.empty();
}

ThreadJob::Generation ThreadJob::Meet(int member) {
  std::unique_lock lock(mutex_);
  const uint64_t before = current_.number;
  waiting_.insert(member);
  changed_.notify_all();
  while (true) {
    if (current_.number != before) return current_;
    if (waiting_ == members_) {
      // The last member to arrive, or the first to notice that no other will, starts it for all.
      current_ = {.number = before + 1, .ranks = {}, .bootstrap = MakeThreadBootstrap(), .network = {}};
      for (const int each : members_) current_.ranks.emplace(each, static_cast<int>(current_.ranks.size()));
      if (devices_) current_.network = FakeNetwork::Make(static_cast<int>(members_.size()));
      waiting_.clear();
      joining_.clear();
      changed_.notify_all();
      return current_;
    }
    changed_.wait(lock);
  }
}

absl::Status ThreadMembership::Enter() {
  group_.reset();
  over_ = false;
  const ThreadJob::Generation next = job_.Meet(member_);
  const int world = static_cast<int>(next.ranks.size()), rank = next.ranks.at(member_);
  assignment_ = {.rank = rank,
                 .world_size = world,
                 .local_rank = job_.nodes_ ? 0 : rank,
                 .local_world_size = job_.nodes_ ? 1 : world,
                 .first_on_node = job_.nodes_ || rank == 0,
                 .nodes = job_.nodes_ ? world : 1};
  generation_ = next.number;
  entered_at_ = MonotonicNow();
  if (world == 1) return absl::OkStatus();
  collectives::GroupMember member;
  member.rank = rank;
  member.world_size = world;
  member.generation = absl::StrCat(next.number, ".", getpid(), ".", reinterpret_cast<uintptr_t>(&job_));
  network_ = next.network;
  if (network_ == nullptr) {
    MT_ASSIGN_OR_RETURN(group_, collectives::ConnectGroup(member, next.bootstrap, at::kCPU));
    return absl::OkStatus();
  }
  const auto device = [this](const collectives::GroupMember& self,
                             const std::shared_ptr<collectives::Bootstrap>&) {
    return network_->DeviceOf(self.rank);
  };
  MT_ASSIGN_OR_RETURN(group_, collectives::ConnectGroup(member, next.bootstrap, at::kCPU, device));
  return absl::OkStatus();
}

void ThreadMembership::BreakGroup() const {
  if (group_) collectives::AbortGroup(group_, "the test breaks it");
}

absl::Status ThreadMembership::Regroup(const absl::Status& why) {
  static_cast<void>(why);
  if (told_to_go_at_) return absl::CancelledError(drain_wish());
  if (work_is_done_) return absl::CancelledError("the job has ended");
  return Enter();
}

void ThreadMembership::LoseService(std::function<void()> look) {
  look_ = std::move(look);
  lease_.Set(generation_, BootNow());  // last: the checkpoint writer checks it on its own thread
}

void ThreadMembership::LoseServiceElsewhere(std::function<void()> asked) {
  asked_elsewhere_ = std::move(asked);
  over_elsewhere_ = true;
}

bool ThreadMembership::lease_is_over() const {
  const bool own = std::this_thread::get_id() == thread_;
  if (!own && over_elsewhere_) {
    asked_elsewhere_();
    return true;
  }
  const bool over = lease_.Over(0, BootNow());
  if (over && own) look_();
  return over;
}

void ThreadMembership::ReportProgress(int64_t epoch, int64_t step, int64_t samples) {
  static_cast<void>(epoch);
  static_cast<void>(samples);
  if (hook_) hook_(*this, step);
}

void ThreadMembership::ReportLeaving(std::string_view why) {
  static_cast<void>(why);
  if (on_leaving_) on_leaving_();
}

absl::Status ThreadMembership::ReportDone(int64_t step) {
  done_ = step;
  const auto answer = std::exchange(answer_done_, nullptr);
  return answer ? answer() : absl::OkStatus();
}

}  // namespace mtrun::trainers::testing
