#include "trainers/checkpoints/saver.h"

#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::checkpoints {

Saver::Saver(Files& files, Rules rules, std::function<void(const Result&)> told)
    : files_(files), rules_(std::move(rules)), told_(std::move(told)), thread_([this] { Run(); }) {}

Saver::~Saver() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Saver::Submit(Snapshot snapshot, std::optional<int64_t> best) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = Job{std::move(snapshot), best};
  }
  changed_.notify_all();
}

absl::Status Saver::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_ && !writing_; });
  return last_;
}

void Saver::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return waiting_ || closing_; });
    if (!waiting_) return;
    const Job job = *std::exchange(waiting_, std::nullopt);
    writing_ = true;
    lock.unlock();
    const TimePoint began = MonotonicNow();
    const absl::Status status = Save(job);
    told_({job.snapshot.step, status, ToSeconds(MonotonicNow() - began), job.snapshot.TensorBytes()});
    lock.lock();
    writing_ = false;
    last_ = status;
    changed_.notify_all();
  }
}

absl::Status Saver::Save(const Job& job) {
  if (rules_.first) MT_RETURN_IF_ERROR(rules_.first());
  MT_RETURN_IF_ERROR(WriteCheckpoint(files_, rules_.root, job.snapshot, rules_.unique));
  // An old checkpoint that stays costs room, nothing else.
  const absl::Status removed = RemoveOldSteps(files_, rules_.root, rules_.keep_last, job.best);
  if (!removed.ok()) log::Warning("old checkpoints could not be removed: ", std::string(removed.message()));
  return absl::OkStatus();
}

}  // namespace mtrun::checkpoints
