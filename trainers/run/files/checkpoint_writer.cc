#include "trainers/run/files/checkpoint_writer.h"

#include "base/log.h"
#include "trainers/run/files/aborted_saves.h"
#include "trainers/run/files/run_links.h"

namespace mtrun::trainers {

using checkpoints::Saver;

CheckpointWriter::CheckpointWriter(const Options& options)
    : path_(options.path),
      grace_(options.grace),
      last_seconds_(options.last_seconds),
      saver_(checkpoints::RealFiles(),
             Saver::Rules{.root = options.path,
                          .unique = SaverName(options.generation),
                          .keep_last = options.keep_last,
                          .first =
                              [path = options.path, first = options.first] {
                                RemoveAbortedSaves(path);  // another machine's was too recent before
                                return first ? first() : absl::OkStatus();
                              }},
             [this](const Saver::Result& result) { Hear(result); }) {
  const MutexLock lock(mutex_);
  WarnIfTooSlow("the last checkpoint took ");
}

std::vector<CheckpointWriter::Saved> CheckpointWriter::TakeSaved() {
  const MutexLock lock(mutex_);
  return std::exchange(saved_, {});
}

double CheckpointWriter::last_seconds() const {
  const MutexLock lock(mutex_);
  return last_seconds_;
}

void CheckpointWriter::Hear(const Saver::Result& result) {
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

void CheckpointWriter::WarnIfTooSlow(const char* what) {
  const Duration took = FromSeconds(last_seconds_);
  if (grace_ == Duration::zero() || took <= grace_ || std::exchange(said_too_slow_, true)) return;
  log::Warning(what, HumanDuration(took), ", but after SIGTERM there are only ", HumanDuration(grace_),
               " until SIGKILL: give mtrun a longer --shutdown_timeout, or the training since the last "
               "checkpoint is lost when the job is stopped");
}

}  // namespace mtrun::trainers
