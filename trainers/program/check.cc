#include "trainers/program/check.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/data_key.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "datasets/cache/set_request.h"
#include "trainers/device/torch_status.h"
#include "trainers/program/run_outline.h"
#include "trainers/program/settle_folder.h"
#include "trainers/program/starting_weights.h"
#include "trainers/run/files/other_runs.h"
#include "trainers/run/files/run_folder.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

/// The options that name weights to start from, and their values.
std::vector<std::pair<std::string, std::string>> StartingFiles(const Run& run) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string name : {"init_from", "weights"}) {
    if (!run.settings.Has(name)) continue;
    if (const std::string file = run.settings.Text(name); !file.empty())
      files.emplace_back("--" + name, file);
  }
  return files;
}

bool DrawsInputs(const TrainOptions& options) {
  const Reading reading = options.ReadingNow();
  return options.augmentation.any() || options.warps.any() || reading.crop || reading.jitter.any();
}

RunOutline Outline(const Run& run, const RunData& data, const Task& task) {
  const int64_t images = data.train.size(), steps_per_epoch = run.options.plan.Steps(images);
  RunOutline outline{.program = run.program.name,
                     .data = run.options.data,
                     .images = data.shape(),
                     .train_images = images,
                     .test_images = data.test.size(),
                     .final_images = data.final_test ? data.final_test->size() : 0,
                     .classes = task.classes(),
                     .resolved = run.resolved,
                     .plan = run.options.plan,
                     .length = LengthOf(run.options, steps_per_epoch),
                     .folder = run.options.model_folder};
  outline.schedule = LrScheduleOf(run.options, outline.length);
  for (const at::Tensor& parameter : task.module().parameters()) {
    outline.parameters += parameter.numel();
    if (parameter.requires_grad()) outline.trained += parameter.numel();
  }
  if (const auto files = StartingFiles(run); !files.empty()) outline.weights = files.back().second;
  if (const auto state = ContinuedState(run)) outline.continued = state->position.steps;
  return outline;
}

/// Makes the network on the CPU, with the weights to start from.
absl::StatusOr<std::unique_ptr<Task>> MakeTaskToCheck(const Run& run, const RunData& data) {
  return TorchStatus("create the network", [&] {
    return MakeTaskOf(run, static_cast<int64_t>(data.train.class_names().size()),
                      BatchOptions{.device = at::kCPU}, data.train.class_counts());
  });
}

}  // namespace

absl::Status CheckFolder(const Run& run) {
  if (run.assignment.local_rank != 0) return absl::OkStatus();
  const absl::Status checked = CheckRunFolder(run.options.model_folder);
  if (!MayTakeBytesLater(checked)) return checked;
  const auto run_there = RunIn(run.options.model_folder);
  if (!absl::IsResourceExhausted(checked) && !(run_there.ok() && run_there->has_value())) return checked;
  log::Warning(std::string(checked.message()),
               ": the writer of the run's files will wait until that disk can be written");
  return absl::OkStatus();
}

RunIdentity IdentityOf(const Run& run, const datasets::PackedSplit& train, bool draws) {
  return MakeIdentity(run.program.name, train.digest(), run.options, run.settings, run.program.settings,
                      {.draws = draws || DrawsInputs(run.options), .decodes = train.encoded()});
}

absl::StatusOr<int> CheckRun(Run& run, const RunData& data) {
  // mtrun checks a command silently before it starts the workers; a user who asks for it gets the outline.
  const bool by_hand =
      !run.environment.contains("MTRUN_CONFIGURED_WORLD") || run.environment.contains("MTRUN_PRINTS_CHECK");
  MT_RETURN_IF_ERROR(ResolveOwn(run, run.continues, /*tells=*/by_hand));
  MT_RETURN_IF_ERROR(ResolveSettings(run, data.shape()));
  std::vector<std::string> wrong;
  const auto note = [&wrong](const absl::Status& status) {
    if (!status.ok()) wrong.emplace_back(status.message());
  };
  if (by_hand || !StartingFiles(run).empty()) {
    const absl::StatusOr<std::unique_ptr<Task>> task = MakeTaskToCheck(run, data);
    note(task.status());
    if (by_hand && task.ok()) {
      MT_RETURN_IF_ERROR(PrintOut(OutlineText(Outline(run, data, **task)), kOutlineColumns));
      note(CheckContinued(run, data, (*task)->draws()));
    }
  }
  if (!by_hand) note(CheckContinued(run, data, /*draws=*/false));
  note(CheckFolder(run));
  if (wrong.empty()) return 0;
  return absl::InvalidArgumentError(absl::StrJoin(wrong, "\n"));
}

absl::StatusOr<int> CheckWithoutData(Run& run) {
  EnvironmentMap environment = run.environment;
  environment[kDataKeyVariable] =
      ToText(DataKey{std::string(64, '0'), std::string(64, '0')});  // a worker asks
  MT_RETURN_IF_ERROR(datasets::MakeSetRequest(run.options.data, run.options.remote, environment).status());
  const int side = FittingSide(run.program.images, run.options);
  MT_RETURN_IF_ERROR(ResolveSettings(run, {.height = side, .width = side}));
  for (const auto& [flag, file] : StartingFiles(run)) {
    std::string path = file;
    if (flag == "--weights") {
      MT_ASSIGN_OR_RETURN(path, StartingWeights(run.settings));
    }
    MT_RETURN_IF_ERROR(Annotate(LoadWeights(path, {}), flag));
  }
  MT_RETURN_IF_ERROR(CheckFolder(run));
  return 0;
}

}  // namespace mtrun::trainers
