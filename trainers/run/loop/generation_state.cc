#include "trainers/run/loop/generation_state.h"

#include "absl/strings/str_cat.h"
#include "trainers/collectives/cpu_group.h"

namespace mtrun::trainers {

StuckStep::StuckStep(const Membership& membership, Duration grace) {
  const collectives::ProcessGroup group = membership.group();
  if (!membership.elastic() || !group || grace == Duration::zero()) return;
  const auto stuck = [this, &membership, grace] {
    const std::optional<TimePoint> told = membership.told_to_go_at();
    return runs_ && told && MonotonicNow() - *told >= grace / 2;
  };
  const auto leave = [group] {
    collectives::AbortGroup(group,
                            "asked to leave, but the step did not end within half of the grace period");
  };
  watch_.emplace(stuck, leave, Duration::zero());
}

absl::Status StuckStep::Run(const std::function<absl::Status()>& step) {
  runs_ = true;
  absl::Status done = step();
  runs_ = false;
  return done;
}

GenerationState::GenerationState(RunMember& run, MicroBatchSource& source, RefusedSums& refused, int writes)
    : writer(writes),
      data_parallel(run.state.trained(), run.membership.group(), DataParallel::kDefaultBucketBytes,
                    run.in.graphs ? DataParallel::Gradients::kFixed : DataParallel::Gradients::kFree,
                    run.in.options.sync_micro_batches > 0 ? 0 : run.in.options.plan.micro_batches()),
      runner(run.in.task, source, data_parallel, run.state,
             {.seed = run.in.options.seed,
              .precision = run.in.precision,
              .sync_micro_batches = run.in.options.sync_micro_batches,
              .faults = run.in.faults,
              .graphs = run.in.graphs,
              .may_commit = [&run] { return run.lease.Await(absl::StrCat("step ", run.steps())); },
              .refused = &refused}),
      stuck_step(run.membership, run.in.grace) {}

}  // namespace mtrun::trainers
