#include "trainers/checkpoints/saver.h"

#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::checkpoints {

Saver::Saver(Files& files, Rules rules, std::function<void(const Result&)> told)
    : files_(files), rules_(std::move(rules)), told_(std::move(told)), thread_([this] { Run(); }) {}

Saver::~Saver() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Saver::Submit(Snapshot snapshot, std::optional<int64_t> best) {
  {
    const MutexLock lock(mutex_);
    std::erase_if(waiting_, [&](const Job& job) { return job.snapshot.step != best; });
    waiting_.push_back({std::move(snapshot), best});
  }
  changed_.NotifyAll();
}

absl::Status Saver::Wait() {
  const MutexLock lock(mutex_);
  while (!waiting_.empty() || writing_) changed_.Wait(mutex_);
  return last_;
}

void Saver::Run() {
  const MutexLock lock(mutex_);
  while (true) {
    while (waiting_.empty() && !closing_) changed_.Wait(mutex_);
    if (waiting_.empty()) return;
    const Job job = std::move(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    mutex_.Unlock();
    const TimePoint began = MonotonicNow();
    std::string weights;
    const absl::Status status = Save(job, weights);
    told_({job.snapshot.step, job.best, status, ToSeconds(MonotonicNow() - began), job.snapshot.TensorBytes(),
           weights});
    mutex_.Lock();
    writing_ = false;
    last_ = status;
    changed_.NotifyAll();
  }
}

absl::Status Saver::Save(const Job& job, std::string& weights) {
  if (rules_.first) MT_RETURN_IF_ERROR(rules_.first());
  MT_RETURN_IF_ERROR(WriteCheckpoint(files_, rules_.root, job.snapshot, rules_.unique));
  weights = DigestOfWeights(files_, rules_.root, job.snapshot.step).value_or("");
  // An old checkpoint that stays only costs disk space.
  const absl::StatusOr<RunState> saved = DecodeRunState(job.snapshot.state);
  const absl::Status removed =
      RemoveOldSteps(files_, rules_.root, job.snapshot.step,
                     saved.ok() ? std::optional(*saved) : std::nullopt, rules_.keep_last, job.best);
  if (!removed.ok()) log::Warning("could not remove old checkpoints: ", std::string(removed.message()));
  return absl::OkStatus();
}

}  // namespace mtrun::checkpoints
