#include "trainers/program/run_setup.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/device/cuda_graph.h"
#include "trainers/membership/slurm.h"
#include "trainers/program/machine.h"
#include "trainers/program/make_task.h"
#include "trainers/run/files/fresh_start.h"

namespace mtrun::trainers {
namespace {

/// Returns a checkpoint's batch, if it names one.
std::optional<datasets::BatchPlan> BatchOf(const checkpoints::Identity& identity) {
  datasets::BatchPlan plan;
  const auto number = [&](const char* name, int64_t& value) {
    const auto found = identity.find(name);
    return found != identity.end() && absl::SimpleAtoi(found->second, &value) && value > 0;
  };
  if (!number("global_batch", plan.global_batch) || !number("batch_size", plan.micro_batch))
    return std::nullopt;
  return plan;
}

/// Adopts what a checkpoint began with and the command leaves open.
void Adopt(const checkpoints::Identity& identity, Settings& settings) {
  if (const auto batch = BatchOf(identity)) AdoptBatch(*batch, settings);
  if (const auto rate = identity.find("learning_rate"); rate != identity.end())
    AdoptRate(rate->second, settings);
}

}  // namespace

ProgramRules RulesOf(const Program& program) {
  return {
      .name = program.name, .images = program.images, .channels_last_on_cpu = program.channels_last_on_cpu};
}

bool Asked(const Settings& settings, const char* name) { return settings.IsSet(name) && settings.Bool(name); }

absl::Status ReadRun(Run& run) {
  AddSlurm(run.environment);
  if (run.program.launch) MT_RETURN_IF_ERROR(run.program.launch(run.settings, run.environment));
  MT_ASSIGN_OR_RETURN(run.assignment, ReadAssignment(run.environment));
  run.given = run.settings;
  return ReadFolder(run);
}

absl::Status ReadFolder(Run& run) {
  MT_ASSIGN_OR_RETURN(const int64_t configured, ConfiguredWorld(run.environment));
  const std::string folder = run.settings.Text("model_folder");
  run.continues = run.settings.Bool("resume") || IsBegunBy(folder, AgentOf(run.environment));
  if (run.continues) {
    if (const auto newest = checkpoints::StateOfNewest(checkpoints::RealFiles(), folder))
      Adopt(newest->identity, run.settings);
  }
  MT_ASSIGN_OR_RETURN(run.options, MakeOptions(configured, run.settings));
  return absl::OkStatus();
}

absl::Status ResolveSettings(Run& run, const ImageShape& images) {
  MT_ASSIGN_OR_RETURN(run.resolved,
                      ResolveRun(RulesOf(run.program), run.options,
                                 FindMachine(run.options, run.environment, run.assignment, images)));
  const ResolvedRun& resolved = run.resolved;
  for (const DerivedSetting& setting : resolved.derived)
    run.settings.Derive(setting.name, setting.value, setting.source);
  run.options.image_size = resolved.image_size;
  run.options.amp = resolved.precision == "fp32" ? "off" : resolved.precision;
  return absl::OkStatus();
}

absl::StatusOr<BatchOptions> Resolve(Run& run, const ImageShape& images) {
  MT_RETURN_IF_ERROR(ResolveSettings(run, images));
  const ResolvedRun& resolved = run.resolved;
  MT_ASSIGN_OR_RETURN(const at::Device device, UseMachine(resolved, run.options));
  MT_ASSIGN_OR_RETURN(run.precision, ParsePrecision(resolved.precision, device.type()));
  if (run.options.graph) {
    MT_ASSIGN_OR_RETURN(run.graphs, CudaGraphs(device));
  }
  return BatchOptions{
      .image_size = resolved.batch_image_size,
      .dtype = run.options.float64 ? at::kDouble : at::kFloat,
      .device = device,
      .format = resolved.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
      .grows = run.options.reading.growth.from > 0,
      .read_threads = resolved.read_threads,
      .read_ahead = run.options.read_ahead,
      .read_ahead_bytes = run.options.read_ahead_mib << 20};
}

absl::Status ResolveOwn(Run& run, bool continues, bool tells) {
  if (!run.program.resolve) return absl::OkStatus();
  std::optional<checkpoints::RunState> newest;
  if (continues) newest = checkpoints::StateOfNewest(checkpoints::RealFiles(), run.options.model_folder);
  return run.program.resolve(newest ? newest->identity : checkpoints::Identity(),
                             tells && run.assignment.rank == 0, run.settings);
}

BatchOptions TestBatch(const Run& run, BatchOptions batch) {
  batch.image_size = run.resolved.eval_batch_image_size;
  batch.part = run.options.eval_part;
  batch.grows = false;
  return batch;
}

Description Describe(const Run& run, const ImageShape& images, const std::vector<std::string>& classes,
                     const BatchOptions& test_batch) {
  Description d{.program = run.program.name,
                .classes = classes,
                .image_size = run.resolved.eval_image_size,
                .input_size = test_batch.image_size,
                .images = images};
  if (d.cut()) d.part = test_batch.part;
  for (const Option& option : run.program.settings) {
    if (IsOfNetwork(option)) d.settings[option.spec.name] = run.settings.Text(option.spec.name);
  }
  return d;
}

absl::StatusOr<std::unique_ptr<Task>> MakeTaskOf(const Run& run, int64_t classes, const BatchOptions& batch,
                                                 std::vector<int64_t> class_counts) {
  return MakeTask(run.program,
                  {.settings = run.settings,
                   .options = run.options,
                   .classes = classes,
                   .image_size = run.options.image_size,
                   .eval_image_size = run.resolved.eval_image_size,
                   .enlarged_from = run.resolved.enlarged_from,
                   .device = batch.device,
                   .first = run.assignment.rank == 0,
                   .class_counts = std::move(class_counts)},
                  batch);
}

collectives::Protection ProtectionOf(const TrainOptions& options) {
  return options.encrypt_gradients ? collectives::Protection::kEncrypt : collectives::Protection::kTag;
}

}  // namespace mtrun::trainers
