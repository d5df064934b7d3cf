#include "trainers/engine/classifier.h"

#include <malloc.h>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/engine/agreement.h"
#include "trainers/engine/error_file.h"
#include "trainers/engine/safetensors.h"
#include "trainers/engine/torch_status.h"
#include "trainers/engine/train_loop.h"

namespace mtrun::engine {
namespace {

using datasets::PackedSplit;

/// A run before it trains: what was asked for and what was found.
struct Run {
  const ClassifierProgram& program;
  const EnvironmentMap& environment;
  const TimePoint start;
  Settings settings;
  TrainOptions options;
  Assignment assignment;
};

struct Data {
  PackedSplit train, test;
};

std::string SizeText(int height, int width) { return absl::StrCat(height, "x", width); }

absl::StatusOr<Data> OpenData(const TrainOptions& options) {
  MT_ASSIGN_OR_RETURN(PackedSplit train, PackedSplit::Open(options.data, "train"));
  MT_ASSIGN_OR_RETURN(PackedSplit test, PackedSplit::Open(options.data, "test"));
  if (train.size() == 0 || test.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.data, ": the ", train.size() == 0 ? "train" : "test", " split holds no images"));
  }
  return Data{std::move(train), std::move(test)};
}

/// Checks the images against what the network takes; the settings table says what happens to them.
absl::Status FitImages(Run& run, const Data& data) {
  const int takes = run.program.image_size;
  const std::string square = SizeText(takes, takes);
  if (run.options.image_size != 0 && run.options.image_size != takes) {
    return absl::InvalidArgumentError(absl::StrCat("--image_size ", run.options.image_size, ": ",
                                                   run.program.name, " takes images of ", square, " only"));
  }
  const int height = std::max(data.train.height(), data.test.height());
  const int width = std::max(data.train.width(), data.test.width());
  const std::string has = SizeText(height, width);
  const bool larger = height > takes || width > takes;
  if (larger && run.options.image_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(run.options.data, ": the images are ", has, " and ",
                                                   run.program.name, " takes ", square,
                                                   ": give --image_size ", takes, " to have them resized"));
  }
  const bool equal = height == takes && width == takes;
  run.settings.Derive("image_size", absl::StrCat(takes),
                      equal ? "as the data" : absl::StrCat(has, larger ? " resized" : " padded with black"));
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

absl::StatusOr<at::Device> ChooseDevice(Run& run) {
  const bool wanted = run.options.device == "cuda";
  const bool there = run.options.device != "cpu" && torch::cuda::is_available();
  const bool alone = run.assignment.world_size == 1;
  if (wanted && !there) {
    return absl::InvalidArgumentError(
        "--device cuda: no GPU is usable here (no driver, no GPU, or a CPU-only LibTorch)");
  }
  if (wanted && !alone) {
    return absl::InvalidArgumentError(
        "--device cuda: several workers train on the CPU only; use --device cpu, or one worker");
  }
  const bool cuda = there && alone;
  if (run.options.device == "auto") run.settings.Derive("device", cuda ? "cuda" : "cpu", "auto");
  return at::Device(cuda ? at::kCUDA : at::kCPU);
}

/// A step frees what the next one needs again: keep that memory instead of handing it back and faulting it in
/// anew each time.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

/// Everything that could fail at the first save fails here. Rank 0 only.
absl::StatusOr<MetricsLog> PrepareRunFolder(const Run& run) {
  const std::string& folder = run.options.model_folder;
  if (const absl::Status status = CheckWritable(folder); !status.ok()) {
    return Annotate(status, absl::StrCat("--model_folder ", folder, " cannot be written"));
  }
  MT_RETURN_IF_ERROR(WriteFileAtomically(folder + "/config.yaml", run.settings.Yaml(run.program.name)));
  return MetricsLog::Create(folder + "/metrics.jsonl");
}

absl::StatusOr<Model> InitialModel(const Run& run, const PackedSplit& train,
                                   const BatchMaker::Options& batch) {
  Model model;
  MT_RETURN_IF_ERROR(TorchStatus("make the network", [&] {
    model = run.program.make_model(run.options.seed, static_cast<int64_t>(train.class_names().size()));
  }));
  // One reader is enough: the weights of rank 0 go to everybody.
  if (!run.options.init_from.empty() && run.assignment.rank == 0) {
    MT_RETURN_IF_ERROR(InitFrom(run.options.init_from, *model.module));
  }
  MT_RETURN_IF_ERROR(TorchStatus("move the network", [&] { model.module->to(batch.device, batch.dtype); }));
  return model;
}

void WarnOfIdleWorkers(const Run& run) {
  const int64_t shards = run.options.plan.shards();
  if (run.assignment.world_size <= shards) return;
  log::Warning("a step has ", shards, shards == 1 ? " micro-batch" : " micro-batches", " for ",
               run.assignment.world_size,
               " workers: the others stay idle. A smaller --batch_size gives them work");
}

absl::Status FinishRun(const Run& run, const Model& model, const RunReport& report, ProgressLine& progress) {
  progress.Print("\n" + ReportText(report));
  const std::string& folder = run.options.model_folder;
  MT_RETURN_IF_ERROR(SaveTensors(folder + "/model.safetensors", StateDict(*model.module),
                                 {{"program", run.program.name}, {"steps", absl::StrCat(report.steps)}}));
  MT_RETURN_IF_ERROR(WriteReport(report, folder));
  progress.Print(absl::StrCat("\nweights, metrics and this report are in ", folder));
  return absl::OkStatus();
}

absl::Status TrainAndReport(Run& run) {
  MT_ASSIGN_OR_RETURN(const Data data, OpenData(run.options));
  MT_RETURN_IF_ERROR(FitImages(run, data));
  SetThreads(run);
  MT_ASSIGN_OR_RETURN(const at::Device device, ChooseDevice(run));
  const BatchMaker::Options batch{.image_size = run.options.image_size,
                                  .dtype = run.options.float64 ? at::kDouble : at::kFloat,
                                  .device = device};
  const bool first = run.assignment.rank == 0;
  ProgressLine progress(/*quiet=*/!first);
  std::optional<MetricsLog> metrics;
  if (first) {
    MT_ASSIGN_OR_RETURN(MetricsLog log, PrepareRunFolder(run));
    metrics.emplace(std::move(log));
    WarnOfIdleWorkers(run);
  }
  progress.Print(absl::StrCat(run.program.name, " settings\n", run.settings.Table()));

  MT_ASSIGN_OR_RETURN(const std::unique_ptr<Team> team, Team::Join(run.environment));
  MT_RETURN_IF_ERROR(CheckAgreement(team->group(), {{"program", run.program.name},
                                                    {"data", data.train.digest()},
                                                    {"settings", Fingerprint(run.options)}}));
  MT_ASSIGN_OR_RETURN(const Model model, InitialModel(run, data.train, batch));
  TrainLoop loop({run.program, run.options, data.train, data.test, model, batch}, *team,
                 metrics ? &*metrics : nullptr, progress, run.start);
  MT_ASSIGN_OR_RETURN(const RunReport report, loop.Run());
  if (first) MT_RETURN_IF_ERROR(FinishRun(run, model, report, progress));
  team->ReportDone(report.steps);
  return absl::OkStatus();
}

/// Reads settings and membership; `*help` when only the help text is wanted.
absl::Status ReadRun(Run& run, const std::vector<std::string>& args, bool* help) {
  MT_ASSIGN_OR_RETURN(run.assignment, ReadAssignment(run.environment));
  MT_ASSIGN_OR_RETURN(const int64_t configured, ConfiguredWorld(run.environment));
  MT_ASSIGN_OR_RETURN(const Parsed parsed,
                      ParseOptions(run.program.name, args, run.environment, configured, run.settings));
  run.options = parsed.options;
  *help = parsed.help;
  return absl::OkStatus();
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

}  // namespace

int RunClassifier(int argc, char** argv, const ClassifierProgram& program) {
  const TimePoint start = MonotonicNow();
  KeepFreedMemory();
  log::SetUp(program.name, log::Level::kInfo);
  const EnvironmentMap environment = CurrentEnvironment();
  Run run{program, environment, start, MakeSettings(program.name, program.recipe), {}, {}};
  bool help = false;
  if (const absl::Status status = ReadRun(run, {argv + 1, argv + argc}, &help); !status.ok()) {
    return Fail(run, status, 2);
  }
  if (help) {
    std::printf(
        "%s\nusage: %s --data FOLDER [flags]   or   mtrun --nproc_per_node N --trainer %s --data FOLDER "
        "[flags]\n%s",
        program.summary.c_str(), program.name.c_str(), program.name.c_str(), run.settings.Help().c_str());
    return 0;
  }
  if (const absl::Status status = TrainAndReport(run); !status.ok()) return Fail(run, status, 1);
  return 0;
}

}  // namespace mtrun::engine
