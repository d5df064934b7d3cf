#include "trainers/run/train_inputs.h"

#include <utility>

#include "trainers/input/prefetched_source.h"
#include "trainers/run/room_wait.h"

namespace mtrun::trainers {

std::unique_ptr<MicroBatchSource> MakeStepSource(MicroBatchSource& source, const TrainInputs& in) {
  if (in.step_source) return in.step_source(source);
  if (!in.batch.device.is_cuda() || in.batch.resident) return nullptr;
  return std::make_unique<PrefetchedSource>(source, in.batch.device);
}

TrainState::Options StateOptions(const TrainInputs& in) {
  TrainState::Options out{.optimizer = in.options.optimizer,
                          .clip_norm = in.options.clip_norm,
                          .ema_decay = in.options.ema_decay,
                          .loss_scaling = {}};
  if (in.precision == Precision::kFp16) {
    out.loss_scaling.emplace();
    // A micro-batch's part of the mean is smaller than the whole by as much.
    out.loss_scaling->initial_scale *= static_cast<double>(in.options.plan.micro_batches());
  }
  return out;
}

RunReport EmptyReport(const TrainInputs& in) {
  RunReport report;
  report.program = in.program;
  if (in.task.classes() > 0) report.class_names = in.test.class_names();
  report.global_batch = in.options.plan.global_batch;
  report.micro_batch = in.options.plan.micro_batch;
  return report;
}

RunFiles::Options FilesOptions(const TrainInputs& in, const Membership& membership,
                               std::function<std::string(int64_t step)> sample_ids,
                               std::function<void()> still_here) {
  const datasets::BatchPlan& plan = in.options.plan;
  return {.path = in.options.model_folder,
          .settings = in.settings,
          .environment = in.environment,
          .tensorboard = in.options.tensorboard,
          .ledger = {.run = 0,
                     .seed = in.options.seed,
                     .size = in.train.size(),
                     .global_batch = plan.global_batch,
                     .micro_batch = plan.micro_batch,
                     .shuffle = in.options.shuffle,
                     .shards = {in.train.shard_counts(), in.options.shuffle_window},
                     .data = in.train.digest()},
          .keep_last = in.options.keep_checkpoints,
          .grace = in.grace,
          .remember = membership.elastic(),
          .sample_ids = std::move(sample_ids),
          .await_room =
              RoomWait([&membership] { return membership.generation_is_over() || membership.wants_drain(); },
                       std::move(still_here))};
}

}  // namespace mtrun::trainers
