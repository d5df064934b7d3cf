#include "trainers/run/files/checkpoint_writer.h"

#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "trainers/run/files/aborted_saves.h"
#include "trainers/run/files/run_links.h"

namespace mtrun::trainers {

using checkpoints::Saver;

class CheckpointWriter::Listener {
 public:
  Listener(std::string path, Duration grace, double last_seconds)
      : path_(std::move(path)), grace_(grace), last_seconds_(last_seconds) {
    const MutexLock lock(mutex_);
    WarnIfTooSlow("the last checkpoint took ");
  }

  void Hear(const Saver::Result& result) {
    const MutexLock lock(mutex_);
    if (!result.status.ok()) {
      log::Warning("the checkpoint of step ", result.step,
                   " could not be saved; training continues: ", std::string(result.status.message()));
    } else if (failed_last_) {
      log::Info("the checkpoint of step ", result.step, " is saved; saving works again");
    }
    failed_last_ = !result.status.ok();
    if (failed_last_) return;
    last_seconds_ = result.seconds;
    saved_.push_back({result.step, result.weights});
    WarnIfTooSlow("saving a checkpoint took ");
    const absl::Status linked = UpdateLinks(path_, result.step, result.best);
    if (!linked.ok() && !std::exchange(said_no_links_, true)) log::Warning(std::string(linked.message()));
  }

  std::vector<Saved> TakeSaved() {
    const MutexLock lock(mutex_);
    return std::exchange(saved_, {});
  }

  double last_seconds() const {
    const MutexLock lock(mutex_);
    return last_seconds_;
  }

 private:
  void WarnIfTooSlow(const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Duration took = FromSeconds(last_seconds_);
    if (grace_ == Duration::zero() || took <= grace_ || std::exchange(said_too_slow_, true)) return;
    log::Warning(what, HumanDuration(took), ", but after SIGTERM there are only ", HumanDuration(grace_),
                 " until SIGKILL: give mtrun a longer --shutdown_timeout, or the training since the last "
                 "checkpoint is lost when the job is stopped");
  }

  const std::string path_;
  const Duration grace_;
  mutable Mutex mutex_;
  bool said_no_links_ ABSL_GUARDED_BY(mutex_) = false;
  double last_seconds_ ABSL_GUARDED_BY(mutex_);
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Saved> saved_ ABSL_GUARDED_BY(mutex_);
  bool said_too_slow_ ABSL_GUARDED_BY(mutex_) = false;
};

CheckpointWriter::CheckpointWriter(const Options& options)
    : listener_(std::make_shared<Listener>(options.path, options.grace, options.last_seconds)),
      saver_(checkpoints::RealFiles(),
             Saver::Rules{.root = options.path,
                          .unique = SaverName(options.generation),
                          .keep_last = options.keep_last,
                          .first =
                              [path = options.path, first = options.first] {
                                RemoveAbortedSaves(path);  // another machine's was too recent before
                                return first ? first() : absl::OkStatus();
                              }},
             [listener = listener_](const Saver::Result& result) { listener->Hear(result); }) {}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best) {
  saver_.Submit(std::move(snapshot), best);
}

std::vector<CheckpointWriter::Saved> CheckpointWriter::TakeSaved() { return listener_->TakeSaved(); }

absl::Status CheckpointWriter::Wait() { return saver_.Wait(); }

double CheckpointWriter::last_seconds() const { return listener_->last_seconds(); }

}  // namespace mtrun::trainers
