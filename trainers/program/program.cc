#include "trainers/program/program.h"

#include <signal.h>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/device/amp.h"
#include "trainers/device/cuda_graph.h"
#include "trainers/device/torch_status.h"
#include "trainers/membership/drain.h"
#include "trainers/membership/job_membership.h"
#include "trainers/membership/numeric_names.h"
#include "trainers/membership/slurm.h"
#include "trainers/program/data.h"
#include "trainers/program/machine.h"
#include "trainers/program/make_task.h"
#include "trainers/program/preview.h"
#include "trainers/program/results.h"
#include "trainers/program/run_environment.h"
#include "trainers/program/trainers.h"
#include "trainers/run/state_sync.h"
#include "trainers/run/train_loop.h"
#include "trainers/step/fault_plan.h"

namespace mtrun::trainers {
namespace {

using datasets::PackedSplit;

/// A run before it trains: what was asked for and what was found.
struct Run {
  const Program& program;
  EnvironmentMap environment;
  const TimePoint start;
  Settings settings;
  TrainOptions options;
  Assignment assignment;
  Precision precision = Precision::kFp32;
  GraphFactory graphs = nullptr;  // --graph
  ResolvedRun resolved = {};
  bool joined = false;  // what fails from now on may not fail again at a restart
};

ProgramRules RulesOf(const Program& program) {
  return {
      .name = program.name, .images = program.images, .channels_last_on_cpu = program.channels_last_on_cpu};
}

void WarnOfIdleWorkers(const Run& run) {
  const int64_t micro_batches = run.options.plan.micro_batches();
  if (run.assignment.world_size <= micro_batches) return;
  log::Warning("a step has ", micro_batches, micro_batches == 1 ? " micro-batch" : " micro-batches", " for ",
               run.assignment.world_size,
               " workers: the others stay idle. A smaller --batch_size gives them work");
}

/// Exit status of a run that has not failed.
int ExitStatus(const Run& run, const Outcome& outcome) {
  if (outcome.complete || outcome.signal == 0) return 0;
  return run.options.drain_exit_code != 0 ? run.options.drain_exit_code : 128 + outcome.signal;
}

/// What the settings leave open, decided and put into their table.
absl::StatusOr<BatchOptions> Resolve(Run& run, const RunData& data) {
  MT_ASSIGN_OR_RETURN(run.resolved,
                      ResolveRun(RulesOf(run.program), run.options,
                                 FindMachine(run.options, run.environment, run.assignment, data)));
  const ResolvedRun& resolved = run.resolved;
  for (const DerivedSetting& setting : resolved.derived)
    run.settings.Derive(setting.name, setting.value, setting.source);
  run.options.image_size = resolved.image_size;
  run.options.amp = resolved.precision == "fp32" ? "off" : resolved.precision;
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
      .read_ahead = run.options.read_ahead};
}

absl::StatusOr<bool> KeepResident(Run& run, const RunData& data, const BatchOptions& batch) {
  MT_ASSIGN_OR_RETURN(const Residency residency,
                      ResolveResidency(run.options, data, batch.image_size, batch.device));
  if (!residency.why.empty())
    run.settings.Derive("resident", residency.resident ? "on" : "off", residency.why);
  return residency.resident;
}

absl::StatusOr<std::unique_ptr<Task>> MakeTaskOf(const Run& run, const PackedSplit& train,
                                                 const BatchOptions& batch) {
  return MakeTask(run.program,
                  {.settings = run.settings,
                   .options = run.options,
                   .classes = static_cast<int64_t>(train.class_names().size()),
                   .image_size = run.options.image_size,
                   .eval_image_size = run.resolved.eval_image_size,
                   .enlarged_from = run.resolved.enlarged_from,
                   .device = batch.device,
                   .first = run.assignment.rank == 0},
                  batch);
}

/// Everything that takes its time before this worker says that it is ready: the others wait for it behind
/// that. Images may go to the device here.
absl::Status SetUp(const Run& run, const TrainInputs& inputs, Membership& membership, ProgressLine& progress,
                   std::optional<TrainLoop>& loop) {
  MT_RETURN_IF_ERROR(TorchStatus("setting up the training", [&] {
    inputs.faults->Reach(Fault::At::kSetUp, 0);
    loop.emplace(inputs, membership, progress, run.start);
  }));
  return inputs.batch.device.is_cpu() ? absl::OkStatus() : loop->WarmUp();
}

/// With the other workers, to the end.
absl::StatusOr<int> TrainTogether(Run& run, const TrainInputs& inputs, JobMembership& membership,
                                  const std::vector<Fault>& faults) {
  *inputs.faults = FaultPlan(faults, run.assignment.rank);
  ProgressLine progress(/*quiet=*/true);
  std::optional<TrainLoop> loop;
  MT_RETURN_IF_ERROR(SetUp(run, inputs, membership, progress, loop));
  const absl::Status joined = membership.Join(run.environment);
  if (absl::IsCancelled(joined)) {
    log::Info(std::string(joined.message()), ": this worker had not begun to train");
    return 128 + (DrainSignal() != 0 ? DrainSignal() : SIGTERM);
  }
  MT_RETURN_IF_ERROR(joined);
  run.assignment = membership.assignment();  // under mtrun the environment's came too early to be true
  *inputs.faults = FaultPlan(faults, run.assignment.rank);
  if (run.assignment.rank == 0) WarnOfIdleWorkers(run);
  MT_ASSIGN_OR_RETURN(const Outcome outcome, loop->Run());
  if (!outcome.complete) log::Info(outcome.stopped);
  return ExitStatus(run, outcome);
}

/// Test images: of another size, perhaps, and always of the same one.
BatchOptions TestBatch(const Run& run, BatchOptions batch) {
  batch.image_size = run.resolved.eval_batch_image_size;
  batch.part = run.options.eval_part;
  batch.grows = false;
  return batch;
}

bool DrawsInputs(const TrainOptions& options) {
  const Reading reading = options.ReadingNow();
  return options.augmentation.any() || options.warps.any() || reading.crop || reading.jitter.any();
}

TrainInputs InputsOf(const Run& run, const RunData& data, const BatchOptions& batch, Task& task,
                     const RunEnvironment& asked, FaultPlan& faults) {
  return {.program = run.program.name,
          .options = run.options,
          .train = data.train,
          .test = data.test,
          .task = task,
          .batch = batch,
          .test_batch = TestBatch(run, batch),
          .precision = run.precision,
          .graphs = run.graphs,
          .identity = MakeIdentity(run.program.name, data.train.digest(), run.options, run.settings,
                                   run.program.settings, task.draws() || DrawsInputs(run.options)),
          .settings = run.settings.Yaml(run.program.name),
          .greeting = absl::StrCat(run.program.name, " settings\n", run.settings.Table()),
          .faults = &faults,
          .grace = asked.grace,
          .pace = asked.pace,
          .finish = [&run](const TrainState& state, const RunReport& report) {
            return WriteResults(run.options.model_folder, state, report);
          }};
}

/// Any node's first worker may come to write the run's files. A full disk may have room when it does: only
/// what time cannot mend ends a worker here, for the launcher takes it for hopeless.
absl::Status CheckFolder(const Run& run) {
  if (run.assignment.local_rank != 0) return absl::OkStatus();
  const absl::Status checked = CheckRunFolder(run.options.model_folder);
  if (!absl::IsResourceExhausted(checked)) return checked;
  log::Warning(std::string(checked.message()), ": whoever writes the run's files will wait for room");
  return absl::OkStatus();
}

collectives::Protection ProtectionOf(const TrainOptions& options) {
  return options.encrypt_gradients ? collectives::Protection::kEncrypt : collectives::Protection::kTag;
}

absl::StatusOr<int> TrainAndReport(Run& run) {
  MT_ASSIGN_OR_RETURN(const RunData data, OpenData(run.options.data, run.program.needs_test_images));
  MT_RETURN_IF_ERROR(CheckOrder(run.options.shuffle, data.train));
  MT_ASSIGN_OR_RETURN(BatchOptions batch, Resolve(run, data));
  if (run.options.preview > 0) {
    if (run.assignment.rank == 0) MT_RETURN_IF_ERROR(WritePreview(run.options, data.train, batch));
    return 0;
  }
  MT_ASSIGN_OR_RETURN(batch.resident, KeepResident(run, data, batch));
  MT_RETURN_IF_ERROR(CheckFolder(run));
  MT_ASSIGN_OR_RETURN(const RunEnvironment asked, ReadRunEnvironment(run.environment));
  CatchDrainSignals();
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task, MakeTaskOf(run, data.train, batch));
  run.joined = true;
  MT_ASSIGN_OR_RETURN(const auto membership,
                      JobMembership::Make(run.environment, batch.device, ProtectionOf(run.options)));
  FaultPlan faults;
  return TrainTogether(run, InputsOf(run, data, batch, *task, asked, faults), *membership, asked.faults);
}

int Fail(const Run& run, const absl::Status& status, int exit_status) {
  const std::string text(status.message());
  log::Error(text);
  const auto file = run.environment.find("TORCHELASTIC_ERROR_FILE");
  if (file != run.environment.end()) {
    if (const absl::Status written = WriteErrorFile(file->second, text); !written.ok()) {
      log::Warning("the reason could not be left for the launcher: ", std::string(written.message()));
    }
  }
  return exit_status;
}

Settings SettingsOf(const Program& program) {
  return MakeSettings(program.name, program.recipe, program.settings, program.aliases);
}

/// Membership and options; the settings have been read.
absl::Status ReadRun(Run& run) {
  AddSlurm(run.environment);
  if (run.program.launch) MT_RETURN_IF_ERROR(run.program.launch(run.settings, run.environment));
  MT_ASSIGN_OR_RETURN(run.assignment, ReadAssignment(run.environment));
  MT_ASSIGN_OR_RETURN(const int64_t configured, ConfiguredWorld(run.environment));
  if (const std::string folder = run.settings.Text("model_folder"); run.settings.Bool("resume")) {
    if (const auto batch = BatchOfNewest(folder)) AdoptBatch(*batch, run.settings);
  }
  MT_ASSIGN_OR_RETURN(run.options, MakeOptions(configured, run.settings));
  return absl::OkStatus();
}

int PrintHelp(const Run& run) {
  const char* name = run.program.name.c_str();
  std::printf(
      "%s\nusage: %s --data FOLDER [flags]   or   mtrun --nproc_per_node N --trainer %s --data FOLDER "
      "[flags]\n%s",
      run.program.summary.c_str(), name, name, run.settings.Help().c_str());
  return 0;
}

}  // namespace

int RunProgram(int argc, char** argv, const Program& program) {
  const TimePoint start = MonotonicNow();
  KeepFreedMemory();
  KeepAddressesNumeric();
  log::SetUp(program.name, log::Level::kInfo);
  Run run{program, CurrentEnvironment(), start, SettingsOf(program), {}, {}};
  const auto wanted = ReadSettings(program.name, {argv + 1, argv + argc}, run.environment, run.settings);
  if (!wanted.ok()) return Fail(run, wanted.status(), 2);
  if (!*wanted) return PrintHelp(run);
  if (program.alternate_main) {
    if (const std::optional<absl::Status> done = program.alternate_main(run.settings)) {
      return done->ok() ? 0 : Fail(run, *done, 1);
    }
  }
  if (const absl::Status status = ReadRun(run); !status.ok()) return Fail(run, status, 2);
  absl::StatusOr<int> exit_status = absl::UnknownError("no result");
  // The last door: what LibTorch throws elsewhere, an error of the device that is noticed late for example,
  // ends this worker with its reason.
  const absl::Status thrown = TorchStatus(program.name, [&] { exit_status = TrainAndReport(run); });
  if (!thrown.ok()) exit_status = thrown;
  if (exit_status.ok()) return *exit_status;
  if (IsRivalry(exit_status.status())) return Fail(run, exit_status.status(), 3);  // ends it for everybody
  // 2: another try fails in the same way, unlike what ends a run that others have joined.
  const bool hopeless = !run.joined || absl::IsFailedPrecondition(exit_status.status());
  return Fail(run, exit_status.status(), hopeless ? 2 : 1);
}

int RunTrainer(int argc, char** argv, absl::Span<const Trainer> trainers) {
  const absl::StatusOr<Trainer> trainer = FindTrainer(trainers, argc > 0 ? argv[0] : "");
  if (trainer.ok()) return RunProgram(argc, argv, trainer->describe());
  std::fprintf(stderr, "%s\n", std::string(trainer.status().message()).c_str());
  return 2;
}

}  // namespace mtrun::trainers
