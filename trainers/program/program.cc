#include "trainers/program/program.h"

#include <signal.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/data_key.h"
#include "base/error_file.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "datasets/cache/set_request.h"
#include "datasets/data_url.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/collectives/device_watch.h"
#include "trainers/device/amp.h"
#include "trainers/device/torch_status.h"
#include "trainers/membership/drain.h"
#include "trainers/membership/job_membership.h"
#include "trainers/membership/numeric_names.h"
#include "trainers/program/data.h"
#include "trainers/program/description.h"
#include "trainers/program/environment_json.h"
#include "trainers/program/machine.h"
#include "trainers/program/make_report.h"
#include "trainers/program/modes.h"
#include "trainers/program/preview.h"
#include "trainers/program/remote_data.h"
#include "trainers/program/results.h"
#include "trainers/program/run_environment.h"
#include "trainers/program/run_setup.h"
#include "trainers/program/trainers.h"
#include "trainers/run/fresh_start.h"
#include "trainers/run/other_runs.h"
#include "trainers/run/state_sync.h"
#include "trainers/run/train_loop.h"
#include "trainers/step/fault_plan.h"

namespace mtrun::trainers {
namespace {

/// The other workers wait meanwhile.
constexpr Duration kReportPatience = std::chrono::seconds(60);

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

absl::StatusOr<bool> KeepResident(Run& run, const RunData& data, const BatchOptions& batch) {
  MT_ASSIGN_OR_RETURN(const Residency residency,
                      ResolveResidency(run.options, data, run.resolved, batch.device));
  if (!residency.why.empty())
    run.settings.Derive("resident", residency.resident ? "on" : "off", residency.why);
  return residency.resident;
}

/// Everything that takes its time before this worker says that it is ready: the others wait for it behind
/// that. Images may go to the device here, and a captured step is captured.
absl::Status SetUp(const Run& run, const TrainInputs& inputs, Membership& membership, ProgressLine& progress,
                   std::optional<TrainLoop>& loop) {
  MT_RETURN_IF_ERROR(TorchStatus("setting up the training", [&] {
    inputs.faults->Reach(Fault::At::kSetUp, 0);
    loop.emplace(inputs, membership, progress, run.start);
  }));
  const bool on_device = !inputs.batch.device.is_cpu() || run.program.devices;
  return on_device ? loop->WarmUp() : absl::OkStatus();
}

/// The agent takes a worker that says nothing for one that hangs, and a server may be away for long. Without
/// mtrun there is none; one that cannot be reached is named where this worker joins the others.
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

/// What a server has of the run's data; null where the data lie here.
absl::StatusOr<std::unique_ptr<RemoteData>> OpenRemote(Run& run) {
  if (!datasets::IsDataUrl(run.options.data)) return nullptr;
  run.agent = ConnectEarly(run.environment);
  return RemoteData::Open(run.options, run.environment, run.assignment.local_world_size,
                          [&run] { SayThatItWaits(run); });
}

/// Opens the run's data; where they lie on a server, and the order allows it, while they are still to come.
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

/// Where the run is likely to begin, as the worker that this one is likely to be.
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

/// Before this worker says that it is ready: what its first steps need of data that come while it trains.
/// Images that are to lie on the device are all needed at once.
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

/// With the other workers, to the end.
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
  run.assignment = membership.assignment();  // under mtrun the environment's came too early to be true
  *inputs.faults = FaultPlan(faults, run.assignment.rank);
  if (run.assignment.rank == 0) WarnOfIdleWorkers(run);
  MT_ASSIGN_OR_RETURN(const Outcome outcome, loop->Run());
  if (!outcome.complete) log::Info(outcome.stopped);
  return ExitStatus(run, outcome);
}

/// `columns`: of the screen, 0 for a file.
std::string Greeting(const Run& run, int columns) {
  const bool all = run.settings.Text("settings") == "all";
  const std::string what =
      all ? " settings\n" : ": settings that are not the defaults (all: --settings all)\n";
  return absl::StrCat(run.program.name, what, run.settings.Table(all, static_cast<size_t>(columns)));
}

std::map<std::string, std::string> MetadataOf(const Run& run, const RunData& data,
                                              const BatchOptions& batch) {
  return ToMetadata(Describe(run, data.shape(), data.train.class_names(), TestBatch(run, batch)));
}

bool DrawsInputs(const TrainOptions& options) {
  const Reading reading = options.ReadingNow();
  return options.augmentation.any() || options.warps.any() || reading.crop || reading.jitter.any();
}

TrainInputs InputsOf(const Run& run, const RunData& data, const BatchOptions& batch, Task& task,
                     const RunEnvironment& asked, FaultPlan& faults) {
  // Not of images that may still be to come.
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
          .identity = MakeIdentity(run.program.name, data.train.digest(), run.options, run.settings,
                                   run.program.settings, task.draws() || DrawsInputs(run.options)),
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
          .finish = [&run, metadata = MetadataOf(run, data, batch)](const TrainState& state,
                                                                    const RunReport& report) -> absl::Status {
            MT_RETURN_IF_ERROR(WriteResults(run.options.model_folder, state, report, metadata));
            if (run.options.report) MakeReport(run.options.model_folder, kReportPatience);
            return absl::OkStatus();
          }};
}

/// Any node's first worker may come to write the run's files. A full disk may have room when it does, and one with
/// a run on it that has become read-only may be writable again: only what time cannot mend ends a worker here, for
/// the launcher takes it for hopeless.
absl::Status CheckFolder(const Run& run) {
  if (run.assignment.local_rank != 0) return absl::OkStatus();
  const absl::Status checked = CheckRunFolder(run.options.model_folder);
  if (!MayTakeBytesLater(checked)) return checked;
  const auto run_there = RunIn(run.options.model_folder);
  if (!absl::IsResourceExhausted(checked) && !(run_there.ok() && run_there->has_value())) return checked;
  log::Warning(std::string(checked.message()), ": the writer of the run's files will wait for that disk");
  return absl::OkStatus();
}

/// --check: what a person may have mistyped, without a network or a device.
absl::StatusOr<int> Check(const Run& run, const ImageShape& images) {
  MT_RETURN_IF_ERROR(ResolveRun(RulesOf(run.program), run.options,
                                FindMachine(run.options, run.environment, run.assignment, images))
                         .status());
  if (const std::string& file = run.options.init_from; !file.empty() && access(file.c_str(), R_OK) != 0)
    return ErrnoStatus(errno, absl::StrCat("--init_from ", file));
  MT_RETURN_IF_ERROR(CheckFolder(run));
  return 0;
}

/// The same without data that lie on a server: to fetch them takes long and may wait for ever, which workers
/// do, whom mtrun guards. They get their key from it, so that this one needs none.
absl::StatusOr<int> CheckWithoutData(const Run& run) {
  EnvironmentMap environment = run.environment;
  environment[kDataKeyVariable] = "of a worker";
  MT_RETURN_IF_ERROR(datasets::MakeSetRequest(run.options.data, run.options.remote, environment).status());
  const int side = FittingSide(run.program.images, run.options);
  return Check(run, {.height = side, .width = side});
}

absl::StatusOr<int> TrainAndReport(Run& run) {
  const bool checks = Asked(run.settings, "check");
  if (checks && datasets::IsDataUrl(run.options.data)) return CheckWithoutData(run);
  // Holds what it has fetched.
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteData> remote, OpenRemote(run));
  MT_ASSIGN_OR_RETURN(RunData data, FindData(run, remote.get()));
  MT_RETURN_IF_ERROR(CheckOrder(run.options.shuffle, data.train));
  if (checks) return Check(run, data.shape());
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
                      MakeTaskOf(run, static_cast<int64_t>(data.train.class_names().size()), batch));
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
      log::Warning("the reason could not be left for the launcher: ", std::string(written.message()));
    }
  }
  return exit_status;
}

Settings SettingsOf(const Program& program) {
  return MakeSettings(program.name, program.recipe, program.settings, program.aliases);
}

std::string HelpText(const Run& run) {
  const std::string& name = run.program.name;
  if (Asked(run.settings, "version")) return VersionLine(name, LibTorchName()) + "\n";
  return absl::StrFormat(
      "%s\n"
      "usage: mtrun --nproc_per_node N --trainer %s --data FOLDER [flags]\n"
      "       %s --data FOLDER [flags]                            one worker\n"
      "       %s --evaluate RUN|CHECKPOINT --data FOLDER\n"
      "       %s --predict FILE|FOLDER... --out predictions.csv\n"
      "       %s --export FOLDER\n%s",
      run.program.summary, name, name, name, name, name, run.settings.Help());
}

int PrintHelp(const Run& run) {
  const absl::Status told = PrintOut(HelpText(run));
  return told.ok() ? 0 : Fail(run, told, 1);
}

/// Its exit status; -1: it is to train.
int RunModeIfAsked(Run& run) {
  std::optional<absl::StatusOr<int>> done;
  const absl::Status thrown = TorchStatus(run.program.name, [&] { done = RunMode(run); });
  if (!thrown.ok()) return Fail(run, thrown, 1);
  if (!done) return -1;
  return done->ok() ? **done : Fail(run, done->status(), run.joined ? 1 : 2);
}

int RunToItsEnd(int argc, char** argv, const Program& program) {
  const TimePoint start = MonotonicNow();
  KeepFreedMemory();
  KeepAddressesNumeric();
  log::SetUp(program.name, log::Level::kInfo);
  Run run{program, CurrentEnvironment(), start, SettingsOf(program), {}, {}, {}};
  const auto wanted =
      ReadSettings(program.name, {argv + 1, argv + argc}, run.environment, run.settings, &run.files);
  if (!wanted.ok()) return Fail(run, wanted.status(), 2);
  if (!*wanted) return PrintHelp(run);
  if (program.alternate_main) {
    std::optional<absl::Status> done;
    const absl::Status thrown =
        TorchStatus(program.name, [&] { done = program.alternate_main(run.settings); });
    if (!thrown.ok()) done = thrown;
    if (done) return done->ok() ? 0 : Fail(run, *done, 1);
  }
  if (const int mode = RunModeIfAsked(run); mode >= 0) return mode;
  if (const absl::Status status = ReadRun(run); !status.ok()) return Fail(run, status, 2);
  if (Asked(run.settings, "check_settings")) return 0;
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
  return 2;
}

}  // namespace mtrun::trainers
