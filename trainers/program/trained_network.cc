#include "trainers/program/trained_network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

/// Describes weights that do not record what they were trained with.
absl::StatusOr<Description> FromData(const Run& run, const WeightsSource& source) {
  const absl::StatusOr<datasets::PackedSplit> data = OpenTest(run.options.data);
  if (!data.ok())
    return absl::InvalidArgumentError(absl::StrCat(
        source.file, " does not name its classes: give the data set that it was trained with (--data): ",
        data.status().message()));
  return Description{.program = run.program.name, .classes = data->class_names(), .images = ShapeOf(*data)};
}

}  // namespace

absl::StatusOr<WeightsSource> OpenSource(Run& run, const std::string& path) {
  MT_ASSIGN_OR_RETURN(WeightsSource source, FindWeights(path));
  MT_RETURN_IF_ERROR(CheckProgram(source, run.program.name));
  MT_RETURN_IF_ERROR(AdoptRunSettings(source, run.program, run.settings));
  if (run.settings.Text("data").empty()) run.settings.Derive("data", "none", "not needed");
  // The weights that training began with no longer matter, and may not exist any more.
  run.settings.Derive("init_from", "", source.what);
  if (run.settings.Has("weights")) run.settings.Derive("weights", "", source.what);
  MT_RETURN_IF_ERROR(ReadRun(run));
  return source;
}

absl::StatusOr<TrainedNetwork> MakeTrained(Run& run, const WeightsSource& source, const ImageShape& shape,
                                           const std::vector<std::string>& classes) {
  MT_RETURN_IF_ERROR(ResolveOwn(run, /*continues=*/false));
  MT_ASSIGN_OR_RETURN(const BatchOptions training, Resolve(run, shape));
  const BatchOptions batch = TestBatch(run, training);
  MT_ASSIGN_OR_RETURN(std::unique_ptr<Task> task,
                      MakeTaskOf(run, static_cast<int64_t>(classes.size()), batch));
  MT_RETURN_IF_ERROR(LoadInto(source, task->module()));
  task->module().eval();
  return TrainedNetwork{source, Describe(run, shape, classes, batch), batch, std::move(task)};
}

absl::StatusOr<TrainedNetwork> OpenTrained(Run& run) {
  const std::string named = run.settings.Text("weights_of");
  MT_ASSIGN_OR_RETURN(const WeightsSource source,
                      OpenSource(run, named.empty() ? run.settings.Text("model_folder") : named));
  absl::StatusOr<Description> known = DescriptionOf(source.metadata);
  if (absl::IsNotFound(known.status())) known = FromData(run, source);
  if (!known.ok()) return Annotate(known.status(), source.file);
  // Weights record the size even without their run's settings.
  if (known->image_size > 0 && run.options.image_size == 0 && run.program.images.adjustable)
    run.options.image_size = known->image_size;
  return MakeTrained(run, source, known->images, known->classes);
}

}  // namespace mtrun::trainers
