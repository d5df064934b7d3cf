#include "trainers/program/program.h"

#include <signal.h>
#include <unistd.h>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error_file.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/log_level.h"
#include "base/own_launch.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "datasets/packed/data_url.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/collectives/device_watch.h"
#include "trainers/device/torch_status.h"
#include "trainers/membership/drain.h"
#include "trainers/membership/job_membership.h"
#include "trainers/membership/numeric_names.h"
#include "trainers/program/check.h"
#include "trainers/program/data.h"
#include "trainers/program/description.h"
#include "trainers/program/environment_json.h"
#include "trainers/program/machine.h"
#include "trainers/program/make_report.h"
#include "trainers/program/modes.h"
#include "trainers/program/notable_file.h"
#include "trainers/program/preview.h"
#include "trainers/program/program_help.h"
#include "trainers/program/remote_data.h"
#include "trainers/program/results.h"
#include "trainers/program/run_environment.h"
#include "trainers/program/run_setup.h"
#include "trainers/program/settle_folder.h"
#include "trainers/program/trainers.h"
#include "trainers/run/files/fresh_start.h"
#include "trainers/run/loop/state_sync.h"
#include "trainers/run/loop/train_loop.h"
#include "trainers/run/rules/run_length.h"
#include "trainers/step/fault_plan.h"

namespace mtrun::trainers {
namespace {

/// The other workers wait while mtreport runs.
constexpr Duration kReportPatience = std::chrono::seconds(60);

void WarnOfIdleWorkers(const Run& run) {
  const int64_t micro_batches = run.options.plan.micro_batches();
  if (run.assignment.world_size <= micro_batches) return;
  log::Warning("a step has ", micro_batches, micro_batches == 1 ? " micro-batch" : " micro-batches", " for ",
               run.assignment.world_size,
               " workers: the others stay idle. A smaller --batch_size gives them work");
}

void WarnOfLength(const Run& run, int64_t images) {
  const RunLength length = LengthOf(run.options, run.options.plan.Steps(images));
  const LrSchedule schedule = LrScheduleOf(run.options, length);
  for (const std::string& caution : CautionsOf(length, schedule, run.options.plan.global_batch, images))
    log::Warning(caution);
  if (const std::string unused = DescribeUnusedAugmentation(run.settings); !unused.empty())
    log::Warning(unused);
}

/// Returns the exit status of a run that has not failed.
int ExitStatus(const Run& run, const Outcome& outcome) {
  if (outcome.complete || outcome.signal == 0) return 0;
  return run.options.drain_exit_code != 0 ? run.options.drain_exit_code : 128 + outcome.signal;
}

absl::StatusOr<bool> KeepResident(Run& run, const RunData& data, const BatchOptions& batch) {
  MT_ASSIGN_OR_RETURN(const Residency residency,
                      ResolveResidency(run.options, data, run.resolved, batch.device));
  if (!residency.why.empty())
    run.settings.Derive("resident", residency.resident ? "on" : "off", residency.why);
  return residency.resident;
}

/// Does all slow work before this worker reports that it is ready, because the others wait for it after that.
/// This can move images to the device, and it captures a step if steps are captured.
absl::Status SetUp(const Run& run, const TrainInputs& inputs, Membership& membership, ProgressLine& progress,
                   std::optional<TrainLoop>& loop) {
  MT_RETURN_IF_ERROR(TorchStatus("setting up the training", [&] {
    inputs.faults->Reach(Fault::At::kSetUp, 0);
    loop.emplace(inputs, membership, progress, run.start);
  }));
  const bool on_device = !inputs.batch.device.is_cpu() || run.program.devices;
  return on_device ? loop->WarmUp() : absl::OkStatus();
}

/// Connects to the agent before data is fetched from a server that can be unreachable for long, because the
/// agent treats a silent worker as hung. Returns null without mtrun, or if the agent cannot be reached: that
/// error is reported when this worker joins the others.
std::unique_ptr<AgentConnection> ConnectEarly(const EnvironmentMap& environment) {
  if (LaunchOf(environment) != Launch::kMtrun) return nullptr;
  const absl::StatusOr<WorkerEnv> worker = ParseWorkerEnv(environment);
  if (!worker.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<AgentConnection>> agent = AgentConnection::Open(*worker);
  return agent.ok() ? *std::move(agent) : nullptr;
}

void SayThatItWaits(const Run& run) {
  if (run.agent) run.agent->SayWaiting();
}

/// Returns the run's data on a server, or null if the data is local.
absl::StatusOr<std::unique_ptr<RemoteData>> OpenRemote(Run& run) {
  if (!datasets::IsDataUrl(run.options.data)) return nullptr;
  run.agent = ConnectEarly(run.environment);
  return RemoteData::Open(run.options, run.environment, run.assignment.local_world_size,
                          [&run] { SayThatItWaits(run); });
}

/// Opens the run's data. If it is on a server and the order allows it, shards can still be arriving.
absl::StatusOr<RunData> FindData(const Run& run, RemoteData* remote) {
  if (remote != nullptr && TrainsWhileDataComes(run.options)) {
    MT_ASSIGN_OR_RETURN(RunData data, OpenArrivingData(remote->folder(), run.program.needs_test_images));
    data.stays = remote->keeps_all();
    return data;
  }
  if (remote != nullptr) MT_RETURN_IF_ERROR(remote->AwaitAll());
  return OpenData(remote != nullptr ? remote->folder() : run.options.data, run.program.needs_test_images,
                  run.options.validation_share);
}

/// Waits for the data of the run's likely first steps, for the rank that this worker is likely to have.
absl::Status AwaitFirstSteps(const Run& run, const BatchOptions& batch, DataArrival& arrival,
                             const DataArrival::Watch& still_here) {
  int64_t step = 0;
  if (run.continues) {
    const auto saved = checkpoints::CompleteSteps(checkpoints::RealFiles(), run.options.model_folder);
    if (saved.ok() && !saved->empty()) step = saved->back();
  }
  return arrival.AwaitFirst(step, run.assignment.rank, run.assignment.world_size, !batch.device.is_cpu(),
                            still_here);
}

/// Waits, before this worker reports that it is ready, for the arriving data that its first steps need. If
/// images are kept on the device, all of them are needed at once.
absl::Status AwaitFirstData(Run& run, const BatchOptions& batch, RemoteData& remote, RunData& data) {
  run.data_wait = remote.waited();
  if (data.arrives) {
    DataArrival& arrival = remote.Begin(data.splits(), run.options);
    const auto still_here = [&run] {
      SayThatItWaits(run);
      return absl::OkStatus();
    };
    MT_RETURN_IF_ERROR(batch.resident ? arrival.AwaitAll(still_here)
                                      : AwaitFirstSteps(run, batch, arrival, still_here));
    run.data_wait += arrival.TakeWaited();
    if (!batch.resident) run.arrival = &arrival;
  }
  return absl::OkStatus();
}

/// Trains with the other workers to the end.
absl::StatusOr<int> TrainTogether(Run& run, const TrainInputs& inputs, JobMembership& membership,
                                  const std::vector<Fault>& faults) {
  *inputs.faults = FaultPlan(faults, run.assignment.rank);
  ProgressLine progress(/*quiet=*/true, ScreenOf(run.environment, isatty(STDOUT_FILENO) == 1));
  std::optional<TrainLoop> loop;
  MT_RETURN_IF_ERROR(SetUp(run, inputs, membership, progress, loop));
  const absl::Status joined = membership.Join(run.environment, std::move(run.agent));
  if (absl::IsCancelled(joined)) {
    log::Info(std::string(joined.message()), ": this worker had not begun to train");
    return 128 + (DrainSignal() != 0 ? DrainSignal() : SIGTERM);
  }
  MT_RETURN_IF_ERROR(joined);
  run.assignment = membership.assignment();  // under mtrun the environment is set before ranks are final
  *inputs.faults = FaultPlan(faults, run.assignment.rank);
  if (run.assignment.rank == 0) {
    WarnOfIdleWorkers(run);
    WarnOfLength(run, inputs.train.size());
  }
  MT_ASSIGN_OR_RETURN(const Outcome outcome, loop->Run());
  if (!outcome.complete) log::Info(outcome.stopped);
  return ExitStatus(run, outcome);
}

/// `columns`: width of the screen, 0 for a file.
std::string Greeting(const Run& run, int columns) {
  const bool all = run.settings.Text("settings") == "all";
  const std::string what =
      all ? " settings\n" : ": settings that differ from the defaults (all: --settings all)\n";
  return absl::StrCat(run.program.name, what, run.settings.Table(all, static_cast<size_t>(columns)));
}

std::map<std::string, std::string> MetadataOf(const Run& run, const RunData& data,
                                              const BatchOptions& batch) {
  return ToMetadata(Describe(run, data.shape(), data.train.class_names(), TestBatch(run, batch)));
}

RunIdentity IdentityOnDevice(const Run& run, const RunData& data, const Task& task,
                             const at::Device& device) {
  RunIdentity identity = IdentityOf(run, data.train, task.draws());
  identity.machine = MachineKind(device);
  return identity;
}

TrainInputs InputsOf(const Run& run, const RunData& data, const BatchOptions& batch, Task& task,
                     const RunEnvironment& asked, FaultPlan& faults) {
  // Images that can still be arriving are not drawn.
  std::function<absl::StatusOr<std::string>()> preview;
  if (run.arrival == nullptr)
    preview = [&run, &data, batch] { return DrawPreview(run.options, data.train, batch); };
  return {.program = run.program.name,
          .options = run.options,
          .train = data.train,
          .test = data.test,
          .task = task,
          .batch = batch,
          .test_batch = TestBatch(run, batch),
          .precision = run.precision,
          .graphs = run.graphs,
          .final_test = data.final_test ? &*data.final_test : nullptr,
          .metadata = MetadataOf(run, data, batch),
          .identity = IdentityOnDevice(run, data, task, batch.device),
          .settings = run.settings.Yaml(run.program.name),
          .environment = EnvironmentJson(run.program.name, batch.device),
          .agent = AgentOf(run.environment),
          .greeting = [&run](int columns) { return Greeting(run, columns); },
          .faults = &faults,
          .preview = preview,
          .grace = asked.grace,
          .pace = asked.pace,
          .data_wait = run.data_wait,
          .arrival = run.arrival,
          .finish = [&run, &data, metadata = MetadataOf(run, data, batch)](
                        const TrainState& state, const RunReport& report) -> absl::Status {
            MT_RETURN_IF_ERROR(WriteResults(run.options.model_folder, state, report, metadata));
            MT_RETURN_IF_ERROR(WriteNotable(run.options.model_folder, report.notable,
                                            data.final_test ? *data.final_test : data.test));
            if (run.options.report)
              MakeReport(run.options.model_folder, run.options.result_file, kReportPatience);
            return absl::OkStatus();
          }};
}

absl::StatusOr<int> TrainAndReport(Run& run) {
  const bool checks = Asked(run.settings, "check");
  if (checks && datasets::IsDataUrl(run.options.data)) return CheckWithoutData(run);
  // Keeps what it has fetched for as long as it exists.
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteData> remote, OpenRemote(run));
  MT_ASSIGN_OR_RETURN(RunData data, FindData(run, remote.get()));
  MT_RETURN_IF_ERROR(CheckOrder(run.options.shuffle, data.train));
  MT_RETURN_IF_ERROR(SettleFolder(run, data));
  if (checks) return CheckRun(run, data);
  MT_RETURN_IF_ERROR(ResolveOwn(run, run.continues));
  MT_ASSIGN_OR_RETURN(BatchOptions batch, Resolve(run, data.shape()));
  if (run.options.preview > 0) {
    if (run.assignment.rank == 0) MT_RETURN_IF_ERROR(WritePreview(run.options, data.train, batch));
    return 0;
  }
  MT_ASSIGN_OR_RETURN(batch.resident, KeepResident(run, data, batch));
  if (remote) MT_RETURN_IF_ERROR(AwaitFirstData(run, batch, *remote, data));
  MT_RETURN_IF_ERROR(CheckFolder(run));
  MT_ASSIGN_OR_RETURN(const RunEnvironment asked, ReadRunEnvironment(run.environment));
  CatchDrainSignals();
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task,
                      MakeTaskOf(run, static_cast<int64_t>(data.train.class_names().size()), batch,
                                 data.train.class_counts()));
  run.joined = true;
  MT_ASSIGN_OR_RETURN(
      const auto membership,
      JobMembership::Make(run.environment, batch.device, ProtectionOf(run.options), run.program.devices));
  FaultPlan faults;
  return TrainTogether(run, InputsOf(run, data, batch, *task, asked, faults), *membership, asked.faults);
}

int Fail(const Run& run, const absl::Status& status, int exit_status) {
  const std::string text(status.message());
  log::Error(text);
  const auto file = run.environment.find("TORCHELASTIC_ERROR_FILE");
  if (file != run.environment.end()) {
    if (const absl::Status written = WriteErrorFile(file->second, text); !written.ok()) {
      log::Warning("could not write the error file for the launcher: ", std::string(written.message()));
    }
  }
  return exit_status;
}

Settings SettingsOf(const Program& program) {
  return MakeSettings(program.name, program.recipe, program.settings, program.aliases);
}

int PrintHelp(const Run& run) {
  const std::string& name = run.program.name;
  const bool version = Asked(run.settings, "version");
  const absl::Status told = PrintOut(version ? VersionLine(name, LibTorchName()) + "\n"
                                             : HelpText(HelpOf(run.program), run.settings.Help()));
  return told.ok() ? 0 : Fail(run, told, 1);
}

/// Returns the exit status of the mode, or -1 if the program is to train.
int RunModeIfAsked(Run& run) {
  std::optional<absl::StatusOr<int>> done;
  const absl::Status thrown = TorchStatus(run.program.name, [&] { done = RunMode(run); });
  if (!thrown.ok()) return Fail(run, thrown, 1);
  if (!done) return -1;
  return done->ok() ? **done : Fail(run, done->status(), run.joined ? 1 : kWrongSettingsStatus);
}

int RunToItsEnd(int argc, char** argv, const Program& program) {
  const TimePoint start = MonotonicNow();
  SurviveSizeLimit();
  KeepFreedMemory();
  KeepAddressesNumeric();
  log::SetUpFromEnvironment(program.name);
  Run run{program, OwnLaunch(CurrentEnvironment()), start, SettingsOf(program), {}, {}, {}};
  const auto wanted = ReadSettings(program.name, {argv + 1, argv + argc}, run.environment, run.settings,
                                   &run.files, program.derive);
  if (!wanted.ok()) return Fail(run, wanted.status(), kWrongSettingsStatus);
  if (!*wanted) return PrintHelp(run);
  if (program.alternate_main) {
    std::optional<absl::Status> done;
    const absl::Status thrown =
        TorchStatus(program.name, [&] { done = program.alternate_main(run.settings); });
    if (!thrown.ok()) done = thrown;
    if (done) return done->ok() ? 0 : Fail(run, *done, 1);
  }
  if (const int mode = RunModeIfAsked(run); mode >= 0) return mode;
  if (const absl::Status status = ReadRun(run); !status.ok()) return Fail(run, status, kWrongSettingsStatus);
  if (Asked(run.settings, "check_settings")) return 0;
  // Last resort: if LibTorch throws elsewhere, such as for a device error that is noticed late, this worker
  // ends with the reason.
  const absl::StatusOr<int> exit_status = TorchStatus(program.name, [&] { return TrainAndReport(run); });
  if (exit_status.ok()) return *exit_status;
  if (IsRivalry(exit_status.status())) return Fail(run, exit_status.status(), kDifferentStatesStatus);
  // After others have joined the run, most errors may not recur.
  const bool hopeless = !run.joined || absl::IsFailedPrecondition(exit_status.status());
  return Fail(run, exit_status.status(), hopeless ? kWrongSettingsStatus : 1);
}

}  // namespace

int RunProgram(int argc, char** argv, const Program& program) {
  const int status = RunToItsEnd(argc, argv, program);
  collectives::ExitBesideConnects(status);
  return status;
}

int RunTrainer(int argc, char** argv, absl::Span<const Trainer> trainers) {
  const absl::StatusOr<Trainer> trainer = FindTrainer(trainers, argc > 0 ? argv[0] : "");
  if (trainer.ok()) return RunProgram(argc, argv, trainer->describe());
  const absl::StatusOr<Trainer> named = FindTrainer(trainers, argc > 1 ? argv[1] : "");
  if (named.ok()) return RunProgram(argc - 1, argv + 1, named->describe());
  std::fprintf(stderr, "%s\n", std::string(trainer.status().message()).c_str());
  return kWrongSettingsStatus;
}

}  // namespace mtrun::trainers
