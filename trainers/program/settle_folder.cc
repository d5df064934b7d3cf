#include "trainers/program/settle_folder.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/program/check.h"
#include "trainers/run/rules/identity.h"

namespace mtrun::trainers {
namespace {

/// Returns whether the folder's checkpoint, if there is one, is of this run. Leaves settings and options as
/// they are.
absl::StatusOr<bool> Continues(Run& run, const RunData& data) {
  if (!ContinuedState(run)) return true;
  const Settings settings = run.settings;
  const TrainOptions options = run.options;
  MT_RETURN_IF_ERROR(ResolveOwn(run, run.continues, /*tells=*/false));
  MT_RETURN_IF_ERROR(ResolveSettings(run, data.shape()));
  const absl::Status same = CheckContinued(run, data, /*draws=*/false);
  run.settings = settings;
  run.options = options;
  run.resolved = {};
  return same.ok();
}

}  // namespace

std::optional<checkpoints::RunState> ContinuedState(const Run& run) {
  if (!run.continues) return std::nullopt;
  return checkpoints::StateOfNewest(checkpoints::RealFiles(), run.options.model_folder);
}

absl::Status CheckContinued(const Run& run, const RunData& data, bool draws) {
  const auto state = ContinuedState(run);
  if (!state) return absl::OkStatus();
  const absl::Status same = CheckContinues(IdentityOf(run, data.train, draws), state->identity);
  if (same.ok()) return same;
  return absl::FailedPreconditionError(
      absl::StrCat(run.options.model_folder, " has a checkpoint of another run: ", same.message(),
                   ". Give the same settings, another --model_folder, or --resume=false"));
}

absl::Status SettleFolder(Run& run, const RunData& data) {
  if (run.given->SourceOf("model_folder") != SettingSource::kDefault) return absl::OkStatus();
  const std::string usual = run.options.model_folder;
  for (int number = 2;; ++number) {
    MT_ASSIGN_OR_RETURN(const bool continues, Continues(run, data));
    if (continues) break;
    run.settings = *run.given;
    run.settings.Derive("model_folder", absl::StrCat(usual, "-", number),
                        absl::StrCat("another run is in ", usual));
    MT_RETURN_IF_ERROR(ReadFolder(run));
  }
  if (run.options.model_folder != usual && run.assignment.local_rank == 0)
    log::Debug("another run is in ", usual, ": this one is in ", run.options.model_folder);
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
