#include "trainers/engine/program.h"

#include <malloc.h>
#include <signal.h>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include <ATen/DeviceAccelerator.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/engine/cuda_graph.h"
#include "trainers/engine/device.h"
#include "trainers/engine/drain.h"
#include "trainers/engine/error_file.h"
#include "trainers/engine/fault_plan.h"
#include "trainers/engine/image_bytes.h"
#include "trainers/engine/image_grid.h"
#include "trainers/engine/numeric_names.h"
#include "trainers/engine/residency.h"
#include "trainers/engine/safetensors.h"
#include "trainers/engine/slurm.h"
#include "trainers/engine/torch_status.h"
#include "trainers/engine/train_loop.h"

namespace mtrun::engine {
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
  int batch_size_px = 0;  // pixels a side of the images as they come to the device
  bool joined = false;    // the others may be met; until then whatever fails fails again at a restart
};

struct Data {
  PackedSplit train, test;
};

std::string SizeText(int height, int width) { return absl::StrCat(height, "x", width); }

absl::StatusOr<Data> OpenData(Run& run) {
  const std::string& folder = run.options.data;
  MT_ASSIGN_OR_RETURN(PackedSplit train, PackedSplit::Open(folder, "train"));
  absl::StatusOr<PackedSplit> test = PackedSplit::Open(folder, "test");
  if (!run.program.needs_test_images && absl::IsNotFound(test.status())) {
    test = PackedSplit::Open(folder, "train");
  }
  MT_RETURN_IF_ERROR(test.status());
  if (train.size() == 0 || test->size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": the ", train.size() == 0 ? "train" : "test", " split holds no images"));
  }
  return Data{std::move(train), *std::move(test)};
}

/// Checks the images against what the network takes; the settings table says what happens to them.
absl::Status FitImages(Run& run, const Data& data) {
  const ImageRule& rule = run.program.images;
  const int given = run.options.image_size;
  const int height = std::max(data.train.height(), data.test.height());
  const int width = std::max(data.train.width(), data.test.width());
  const int takes = rule.adjustable && given != 0 ? given
                    : rule.size != 0              ? rule.size
                                                  : std::max(height, width);
  const std::string square = SizeText(takes, takes), has = SizeText(height, width);
  if (given != 0 && given != takes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image_size ", given, ": ", run.program.name, " takes images of ", square, " only"));
  }
  const bool larger = height > takes || width > takes;
  if (larger && given == 0 && !rule.enlarges) {
    return absl::InvalidArgumentError(absl::StrCat(run.options.data, ": the images are ", has, " and ",
                                                   run.program.name, " takes ", square,
                                                   ": give --image_size ", takes, " to have them resized"));
  }
  const bool enlarged = rule.enlarges && !larger;
  run.batch_size_px = enlarged ? std::max(height, width) : takes;
  const bool equal = height == takes && width == takes;
  run.settings.Derive("image_size", absl::StrCat(takes),
                      equal ? "as the data"
                            : absl::StrCat(has, larger     ? " resized"
                                                : enlarged ? " enlarged on the device"
                                                           : " padded with black"));
  run.options.image_size = takes;
  return absl::OkStatus();
}

/// Cores are shared by the workers of a node; a launcher's OMP_NUM_THREADS is taken as it is.
void SetThreads(Run& run) {
  int threads = run.options.threads;
  if (threads == 0 && run.environment.count("OMP_NUM_THREADS") != 0) {
    threads = at::get_num_threads();
    run.settings.Derive("threads", absl::StrCat(threads), "OMP_NUM_THREADS");
  } else if (threads == 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    threads = std::max(1, cores / run.assignment.local_world_size);
    run.settings.Derive("threads", absl::StrCat(threads), "cores / workers on this node");
  }
  at::set_num_threads(threads);
}

/// And what LibTorch needs to know of it: the current device, and the fast ways of its libraries.
absl::StatusOr<at::Device> UseDevice(Run& run) {
  const bool there = run.options.device != "cpu" && torch::cuda::is_available();
  const int gpus = there ? static_cast<int>(torch::cuda::device_count()) : 0;
  MT_ASSIGN_OR_RETURN(
      const DeviceChoice choice,
      ChooseDevice(run.options.device, gpus, run.assignment.local_rank, run.assignment.local_world_size));
  if (run.options.device == "auto") run.settings.Derive("device", choice.cuda ? "cuda" : "cpu", "auto");
  if (!choice.cuda) return at::Device(at::kCPU);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(choice.index));
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("use ", device.str()), [&] {
    c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
    // All micro-batches of a run but an epoch's last one have the same shape: trying cuDNN's ways out pays.
    at::globalContext().setBenchmarkCuDNN(true);
    at::globalContext().setAllowTF32CuBLAS(run.options.tf32);
    at::globalContext().setAllowTF32CuDNN(run.options.tf32);
  }));
  return device;
}

/// Null without --graph.
absl::StatusOr<GraphFactory> ChooseGraphs(const Run& run, const at::Device& device) {
  if (!run.options.graph) return GraphFactory();
  if (device.is_cuda()) return CudaGraphs(device);
  return absl::InvalidArgumentError("--graph: CUDA graphs need a GPU, and this worker computes on the CPU");
}

absl::StatusOr<Precision> ChoosePrecision(Run& run, const at::Device& device) {
  if (run.options.amp == "auto") {
    run.options.amp = device.is_cuda() && !run.options.float64 ? "fp16" : "off";
    run.settings.Derive("amp", run.options.amp, absl::StrCat("auto, on ", device.str()));
  }
  const std::string name = run.options.amp == "off" ? "fp32" : run.options.amp;
  return ParsePrecision(name, device.type());
}

/// With PyTorch 2.11 on one thread of a CPU a step with channels last takes 0.90 of the time for a frozen
/// ResNet at 224, 1.04 for cnnB, 1.57 for the U-Net. Tensor cores want it.
at::MemoryFormat ChooseFormat(Run& run, const at::Device& device) {
  bool last = run.options.channels_last == "on";
  if (run.options.channels_last == "auto") {
    last = device.is_cuda() ? run.options.amp != "off" : run.program.channels_last_on_cpu;
    run.settings.Derive("channels_last", last ? "on" : "off", absl::StrCat("auto, on ", device.str()));
  }
  return last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

/// Whether all images, resized where they will be, go to the device.
absl::StatusOr<bool> KeepResident(Run& run, const Data& data, const BatchOptions& batch) {
  ResidencyNeeds needs{.cuda = batch.device.is_cuda(), .share = run.options.resident_share};
  needs.images = BytesOfAll(data.train, batch.image_size) + BytesOfAll(data.test, batch.image_size);
  if (needs.cuda) {
    MT_RETURN_IF_ERROR(TorchStatus("ask for the GPU's free memory", [&] {
      needs.free = static_cast<int64_t>(at::accelerator::getMemoryInfo(batch.device.index()).first);
    }));
  }
  MT_ASSIGN_OR_RETURN(const Residency residency, ChooseResidency(run.options.resident, needs));
  if (!residency.why.empty())
    run.settings.Derive("resident", residency.resident ? "on" : "off", residency.why);
  return residency.resident;
}

/// A step frees what the next one needs again: keep that memory instead of handing it back and faulting it in
/// anew each time.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

void MoveNetwork(torch::nn::Module& module, const BatchOptions& batch) {
  module.to(batch.device, batch.dtype);
  torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(batch.format));
  }
}

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const Run& run, const PackedSplit& train,
                                               const BatchOptions& batch) {
  const TaskInputs inputs{.settings = run.settings,
                          .options = run.options,
                          .classes = static_cast<int64_t>(train.class_names().size()),
                          .image_size = run.options.image_size,
                          .device = batch.device,
                          .first = run.assignment.rank == 0};
  absl::StatusOr<std::unique_ptr<Task>> task = absl::InternalError("no task");
  MT_RETURN_IF_ERROR(TorchStatus("make the network", [&] { task = run.program.make_task(inputs); }));
  MT_RETURN_IF_ERROR(task.status());
  // All read them: whichever worker is rank 0 when training begins is the source for the others.
  if (!run.options.init_from.empty()) {
    MT_RETURN_IF_ERROR(InitFrom(run.options.init_from, (*task)->module()));
  }
  MT_RETURN_IF_ERROR(TorchStatus("move the network", [&] { MoveNetwork((*task)->module(), batch); }));
  return task;
}

/// --sync_bn changes nothing in a network that does not normalise over batches.
absl::Status CheckSyncBatchNorm(const Run& run, const Task& task) {
  if (run.options.sync_shards == 0 || !models::BatchNormsOf(task.module()).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--sync_bn: ", run.program.name, " has no batch normalisation"));
}

/// Settings of its own that all workers must agree on.
std::string OwnFingerprint(const Run& run) {
  std::string text;
  for (const SettingSpec& spec : run.program.settings) {
    absl::StrAppend(&text, " ", spec.name, "=", run.settings.Text(spec.name));
  }
  return text;
}

/// A plan is for the processes that a job begins with: their replacements would die of it again.
absl::StatusOr<std::vector<Fault>> PlannedFaults(const Run& run) {
  const auto text = run.environment.find("MTRUN_FAULTS");
  if (text == run.environment.end()) return std::vector<Fault>();
  const auto generation = run.environment.find("MTRUN_GENERATION");
  const auto begins_with = [&](const char* number) { return absl::StartsWith(generation->second, number); };
  // 0: the job's first workers begin ahead of its first generation.
  if (generation != run.environment.end() && !begins_with("0.") && !begins_with("1."))
    return std::vector<Fault>();
  return ParseFaults(text->second);
}

/// The environment's variable `name`, in seconds; zero without it.
absl::StatusOr<Duration> SecondsOf(const Run& run, const char* name) {
  constexpr double kMost = 1e6;
  const auto text = run.environment.find(name);
  if (text == run.environment.end()) return Duration::zero();
  double seconds = 0;
  if (absl::SimpleAtod(text->second, &seconds) && seconds >= 0 && seconds <= kMost)
    return FromSeconds(seconds);
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": \"", text->second, "\" is not a number of seconds, 0 to ", kMost));
}

void WarnOfIdleWorkers(const Run& run) {
  const int64_t shards = run.options.plan.shards();
  if (run.assignment.world_size <= shards) return;
  log::Warning("a step has ", shards, shards == 1 ? " micro-batch" : " micro-batches", " for ",
               run.assignment.world_size,
               " workers: the others stay idle. A smaller --batch_size gives them work");
}

/// The first images of the run as the network would get them.
absl::Status WritePreview(const Run& run, const PackedSplit& train, const BatchOptions& batch) {
  MT_RETURN_IF_ERROR(CheckWritable(run.options.model_folder));
  DatasetShards source(train, run.options, batch);
  const std::string path = run.options.model_folder + "/preview.png";
  std::vector<at::Tensor> images;
  int64_t left = std::min(run.options.preview, train.size());
  absl::Status written;
  MT_RETURN_IF_ERROR(TorchStatus("preview", [&] {
    for (int64_t step = 0; left > 0; ++step) {
      for (int64_t shard = 0; shard < source.shards() && left > 0; ++shard) {
        if (source.SamplesInShard(step, shard) == 0) break;
        images.push_back(source.Make(step, shard).images);
        left -= images.back().size(0);
      }
    }
    const at::Tensor all = at::cat(images).narrow(0, 0, std::min(run.options.preview, train.size()));
    written = WriteImageGrid(path, all);
  }));
  MT_RETURN_IF_ERROR(written);
  log::Info("training images are in ", path);
  return absl::OkStatus();
}

/// What all members and all restarts must agree on.
checkpoints::Identity IdentityOf(const Run& run, const PackedSplit& train) {
  checkpoints::Identity identity = {{"program", run.program.name}, {"data", train.digest()}};
  const std::string text = Fingerprint(run.options) + OwnFingerprint(run);
  for (const absl::string_view item : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> field = absl::StrSplit(item, absl::MaxSplits('=', 1));
    identity.insert(field);
  }
  return identity;
}

absl::Status WriteResults(const Run& run, const Learner& learner, const RunReport& report) {
  const std::string& folder = run.options.model_folder;
  const std::map<std::string, std::string> metadata = {{"program", run.program.name},
                                                       {"steps", absl::StrCat(report.steps)}};
  MT_RETURN_IF_ERROR(SaveTensors(folder + "/model.safetensors", learner.Weights(), metadata));
  if (const NamedTensors averaged = learner.AveragedWeights(); !averaged.empty()) {
    MT_RETURN_IF_ERROR(SaveTensors(folder + "/model_ema.safetensors", averaged, metadata));
  }
  return WriteReport(report, folder);
}

/// Exit status of a run that has not failed.
int ExitStatus(const Run& run, const Outcome& outcome) {
  if (outcome.complete || outcome.signal == 0) return 0;
  return run.options.drain_exit_code != 0 ? run.options.drain_exit_code : 128 + outcome.signal;
}

absl::StatusOr<int> TrainAndReport(Run& run) {
  MT_ASSIGN_OR_RETURN(const Data data, OpenData(run));
  MT_RETURN_IF_ERROR(FitImages(run, data));
  SetThreads(run);
  MT_ASSIGN_OR_RETURN(const at::Device device, UseDevice(run));
  MT_ASSIGN_OR_RETURN(const GraphFactory graphs, ChooseGraphs(run, device));
  MT_ASSIGN_OR_RETURN(const Precision precision, ChoosePrecision(run, device));
  BatchOptions batch{.image_size = run.batch_size_px,
                     .dtype = run.options.float64 ? at::kDouble : at::kFloat,
                     .device = device,
                     .format = ChooseFormat(run, device)};
  if (run.options.preview > 0) {
    if (run.assignment.rank == 0) MT_RETURN_IF_ERROR(WritePreview(run, data.train, batch));
    return 0;
  }
  MT_ASSIGN_OR_RETURN(batch.resident, KeepResident(run, data, batch));
  // Any node's first worker may come to keep the run's files.
  if (run.assignment.local_rank == 0) MT_RETURN_IF_ERROR(CheckRunFolder(run.options.model_folder));
  MT_ASSIGN_OR_RETURN(const std::vector<Fault> planned, PlannedFaults(run));
  MT_ASSIGN_OR_RETURN(const Duration pace, SecondsOf(run, "MTRUN_PACE"));
  MT_ASSIGN_OR_RETURN(const Duration grace, SecondsOf(run, "MTRUN_SHUTDOWN_TIMEOUT"));
  CatchDrainSignals();
  MT_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task, MakeTask(run, data.train, batch));
  MT_RETURN_IF_ERROR(CheckSyncBatchNorm(run, *task));
  run.joined = true;
  const absl::StatusOr<std::unique_ptr<Team>> team = Team::Join(run.environment, device);
  if (absl::IsCancelled(team.status())) {
    log::Info(std::string(team.status().message()), ": this worker had not begun to train");
    return 128 + (DrainSignal() != 0 ? DrainSignal() : SIGTERM);
  }
  MT_RETURN_IF_ERROR(team.status());
  run.assignment = (*team)->assignment();  // under mtrun the environment's came too early to be true
  ProgressLine progress(/*quiet=*/run.assignment.rank != 0);
  if (run.assignment.rank == 0) WarnOfIdleWorkers(run);
  FaultPlan faults(planned, run.assignment.rank);
  TrainLoop loop({.program = run.program.name,
                  .options = run.options,
                  .train = data.train,
                  .test = data.test,
                  .task = *task,
                  .batch = batch,
                  .precision = precision,
                  .graphs = graphs,
                  .identity = IdentityOf(run, data.train),
                  .settings = run.settings.Yaml(run.program.name),
                  .greeting = absl::StrCat(run.program.name, " settings\n", run.settings.Table()),
                  .faults = &faults,
                  .grace = grace,
                  .pace = pace,
                  .finish = [&](const Learner& learner,
                                const RunReport& report) { return WriteResults(run, learner, report); }},
                 **team, progress, run.start);
  MT_ASSIGN_OR_RETURN(const Outcome outcome, loop.Run());
  if (!outcome.complete) log::Info(outcome.stopped);
  return ExitStatus(run, outcome);
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
  std::vector<SettingSpec> own = program.settings;
  own.insert(own.end(), program.launch_settings.begin(), program.launch_settings.end());
  return MakeSettings(program.name, program.recipe, own, program.aliases);
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
  if (program.instead) {
    if (const std::optional<absl::Status> done = program.instead(run.settings)) {
      return done->ok() ? 0 : Fail(run, *done, 1);
    }
  }
  if (const absl::Status status = ReadRun(run); !status.ok()) return Fail(run, status, 2);
  const auto exit_status = TrainAndReport(run);
  if (exit_status.ok()) return *exit_status;
  // 2: another try fails in the same way, unlike what ends a run that others have joined.
  const bool hopeless = !run.joined || absl::IsFailedPrecondition(exit_status.status());
  return Fail(run, exit_status.status(), hopeless ? 2 : 1);
}

}  // namespace mtrun::engine
