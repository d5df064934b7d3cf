#include "trainers/run/loop/step_watch.h"

#include <chrono>
#include <vector>

#include "base/log.h"
#include "trainers/collectives/flight_record.h"
#include "trainers/parallel/partition.h"

namespace mtrun::trainers {
namespace {

/// Reading them waits for a device. If gradients are not clipped, their norm is also a pass over all of them.
constexpr Duration kNormEvery = std::chrono::seconds(10), kClippedNormEvery = std::chrono::seconds(1);

}  // namespace

void StepWatch::Enter(const Assignment& who, int64_t micro_batches, TimePoint now) {
  who_ = who;
  told_.reset();
  std::vector<int64_t> work;
  for (int rank = 0; rank < who.world_size; ++rank)
    work.push_back(MicroBatchesOf(micro_batches, rank, who.world_size).size());
  times_.Restart(std::move(work), now);
}

void StepWatch::Look(FinishedStep& step, TimePoint now) {
  if (!files_.draws()) return;
  gpu_.Look(step, now);
  if (now - looked_ < (clips_ ? kClippedNormEvery : kNormEvery)) return;
  looked_ = now;
  step.gradient_norm = state_.GradientNorm();
  if (state_.scales_loss()) step.loss_scale = state_.LossScale();
}

absl::Status StepWatch::Count(const StepResult& result, int64_t steps, TimePoint now) {
  collectives::FlightRecord::OfProcess().Add({.step = steps - 1,
                                              .loss = result.loss,
                                              .seconds = result.times.total(),
                                              .compute = result.times.compute,
                                              .wait = result.times.wait,
                                              .data = result.times.data,
                                              .ended = now});
  times_.Add(result.last_times);
  const std::optional<WorkersRecord> record = times_.Take(steps, now);
  if (!record) return absl::OkStatus();
  if (who_.rank == 0) Tell(*record);
  return files_.Record(*record);
}

void StepWatch::Tell(const WorkersRecord& record) {
  if (record.straggler == told_) return;
  if (const auto& straggler = times_.straggler()) {
    log::Warning(Describe(*straggler, record, HostOf(who_, straggler->rank)));
  } else {
    log::Info("rank ", *told_, " keeps up with the others again");
  }
  told_ = record.straggler;
}

}  // namespace mtrun::trainers
