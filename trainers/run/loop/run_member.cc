#include "trainers/run/loop/run_member.h"

#include <utility>

#include "base/status_macros.h"
#include "trainers/run/files/disk_space_wait.h"
#include "trainers/run/loop/state_sync.h"

namespace mtrun::trainers {
namespace {

RunFiles::Options FilesOptions(RunMember& run) {
  const TrainInputs& in = run.in;
  const datasets::BatchPlan& plan = in.options.plan;
  const Membership& membership = run.membership;
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
          .sample_ids = [&run](int64_t step) { return run.source.DigestOfStep(step); },
          .await_room = DiskSpaceWait(
              [&membership] { return membership.generation_is_over() || membership.wants_drain(); },
              [&run] { run.StillHere(); })};
}

}  // namespace

TrainState::Options StateOptions(const TrainInputs& in) {
  TrainState::Options out{.optimizer = in.options.optimizer,
                          .clip_norm = in.options.clip_norm,
                          .ema_decay = in.options.ema_decay,
                          .loss_scaling = {}};
  if (in.precision == Precision::kFp16) {
    out.loss_scaling.emplace();
    // A micro-batch's part of the mean is smaller than the whole by this factor.
    out.loss_scaling->initial_scale *= static_cast<double>(in.options.plan.micro_batches());
  }
  return out;
}

RunMember::RunMember(const TrainInputs& inputs, Membership& members, ProgressLine& line, TimePoint start)
    : in(inputs),
      membership(members),
      progress(line),
      source(inputs.train, inputs.options.source(), inputs.batch),
      length(LengthOf(inputs.options, source.steps_per_epoch())),
      schedule(LrScheduleOf(inputs.options, length)),
      state(inputs.task.module(), StateOptions(inputs)),
      replica(inputs.identity, state, inputs.options.model_folder, start),
      lifecycle(RulesOf(inputs.options, length), MonotonicNow()),
      lease(members, line, inputs.grace),
      files(FilesOptions(*this)) {}

RunReport RunMember::Report() const {
  const RunProgress& done = replica.progress();
  RunReport report;
  report.program = in.program;
  if (in.task.classes() > 0) report.class_names = in.test.class_names();
  report.global_batch = in.options.plan.global_batch;
  report.micro_batch = in.options.plan.micro_batch;
  report.world_size = membership.assignment().world_size;
  report.nodes = membership.assignment().nodes;
  for (const EvalRecord& record : done.history) report.Add(record);
  if (!done.confusion.empty()) report.matrix = ConfusionMatrix(done.confusion);
  report.steps = steps();
  report.seconds = replica.seconds();
  report.images_per_second = PerSecond(done.samples, report.training_seconds);
  return report;
}

RunFiles::Start RunMember::FilesStart() const {
  return {.run = replica.run(),
          .generation = replica.generation(),
          .position = replica.position(),
          .lineage = replica.lineage(),
          .last_save_seconds = replica.progress().saving,
          .evaluations = replica.progress().history,
          .confusion = replica.progress().confusion,
          .machines = replica.progress().machines};
}

absl::Status RunMember::Save() {
  const TimePoint began = MonotonicNow();
  lifecycle.Saved(replica.position(), began);
  replica.progress().saving = files.last_save_seconds();
  replica.progress().schedule_steps = schedule.steps;
  MT_ASSIGN_OR_RETURN(checkpoints::Snapshot snapshot, replica.TakeSnapshot());
  snapshot.model.metadata = OfPyTorch(in.metadata);
  snapshot.may_commit = [this] { return lease.MayCommit(); };
  MT_RETURN_IF_ERROR(files.Save(std::move(snapshot), Report().BestSteps(), began));
  Reach(Fault::At::kSave);
  return absl::OkStatus();
}

absl::Status RunMember::Barrier() const { return FirstMember(membership.group(), false).status(); }

void RunMember::StillHere() {
  membership.ReportProgress(length.EpochOf(steps()), steps(), replica.progress().samples);
}

void RunMember::Reach(Fault::At at) {
  if (in.faults != nullptr) in.faults->Reach(at, steps());
}

}  // namespace mtrun::trainers
