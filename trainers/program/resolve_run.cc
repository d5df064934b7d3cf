#include "trainers/program/resolve_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

std::string Square(int size) { return absl::StrCat(size, "x", size); }

std::string DeviceText(const DeviceChoice& device) {
  return device.cuda ? absl::StrCat("cuda:", device.index) : "cpu";
}

/// Checks the settings for other image sizes than the one that the network `takes`.
absl::Status CheckOtherSizes(const ProgramRules& program, const TrainOptions& options, int takes) {
  const int from = options.reading.growth.from;
  if (!program.images.any_size && (from > 0 || options.eval_image_size > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(from > 0 ? "--image_size_from " : "--eval_image_size ",
                                                   from > 0 ? from : options.eval_image_size, ": ",
                                                   program.name, " takes images of one size only"));
  }
  if (from <= takes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--image_size_from ", from, ": images grow to --image_size ",
                                                 takes, ", which is smaller"));
}

/// Checks the images against what the network takes; the settings table says what happens to them.
absl::Status FitImages(const ProgramRules& program, const TrainOptions& options, const MachineFacts& machine,
                       ResolvedRun& run) {
  const ImageRule& rule = program.images;
  const int given = options.image_size, height = machine.image_height, width = machine.image_width;
  const int takes = rule.adjustable && given != 0 ? given
                    : rule.size != 0              ? rule.size
                                                  : std::max(height, width);
  const std::string has = absl::StrCat(height, "x", width);
  if (given != 0 && given != takes) {
    return absl::InvalidArgumentError(absl::StrCat("--image_size ", given, ": ", program.name,
                                                   " takes images of ", Square(takes), " only"));
  }
  if (machine.images_vary && given == 0 && rule.size == 0)
    return absl::InvalidArgumentError(
        absl::StrCat(options.data, ": the images differ in size: give --image_size"));
  const bool larger = height > takes || width > takes;
  if (larger && given == 0 && !rule.enlarges) {
    return absl::InvalidArgumentError(absl::StrCat(options.data, ": the images are ", has, ", but ",
                                                   program.name, " takes ", Square(takes),
                                                   ": give --image_size ", takes, " to resize them"));
  }
  MT_RETURN_IF_ERROR(CheckOtherSizes(program, options, takes));
  const Reading reading = options.ReadingNow();
  const bool enlarged = rule.enlarges && !larger && !machine.images_vary;
  const bool cut = reading.crop || reading.growth.from > 0;  // applies to training images of any size
  const bool equal = height == takes && width == takes;
  run.image_size = takes;
  run.batch_image_size = enlarged && !cut ? std::max(height, width) : takes;
  run.eval_image_size = options.eval_image_size > 0 ? options.eval_image_size : takes;
  run.eval_batch_image_size = enlarged ? std::max(height, width) : run.eval_image_size;
  run.enlarged_from = enlarged ? std::max(height, width) : 0;
  run.derived.push_back({"image_size", absl::StrCat(takes),
                         reading.crop          ? absl::StrCat("random parts of images up to ", has)
                         : machine.images_vary ? absl::StrCat("the middle of images up to ", has, ", resized")
                         : equal               ? "as in the data"
                                               : absl::StrCat(has, larger     ? " resized"
                                                                   : enlarged ? " enlarged on the device"
                                                                              : " padded with black")});
  return absl::OkStatus();
}

/// Divides the cores among a node's workers, unless a launcher's OMP_NUM_THREADS sets the threads.
void ResolveThreads(const TrainOptions& options, const MachineFacts& machine, ResolvedRun& run) {
  run.threads = options.threads;
  if (run.threads == 0) {
    const bool openmp = machine.openmp_threads != 0;
    run.threads =
        openmp ? machine.openmp_threads : std::max(1, machine.cores / std::max(1, machine.local_world_size));
    run.derived.push_back(
        {"threads", absl::StrCat(run.threads), openmp ? "OMP_NUM_THREADS" : "cores / workers on this node"});
  }
  run.read_threads = options.read_threads > 0 ? options.read_threads : run.threads;
}

absl::Status ResolveDevice(const TrainOptions& options, const MachineFacts& machine, ResolvedRun& run) {
  MT_ASSIGN_OR_RETURN(
      run.device, ChooseDevice(options.device, machine.gpus, machine.local_rank, machine.local_world_size));
  if (options.device == "auto") run.derived.push_back({"device", run.device.cuda ? "cuda" : "cpu", "auto"});
  if (!options.graph || run.device.cuda) return absl::OkStatus();
  return absl::InvalidArgumentError("--graph: CUDA graphs need a GPU, but this worker computes on the CPU");
}

absl::Status ResolvePrecision(const TrainOptions& options, ResolvedRun& run) {
  std::string amp = options.amp;
  if (amp == "auto") {
    amp = run.device.cuda && !options.float64 ? "fp16" : "off";
    run.derived.push_back({"amp", amp, absl::StrCat("auto, on ", DeviceText(run.device))});
  }
  run.precision = amp == "off" ? "fp32" : amp;
  if (run.precision != "fp16" || run.device.cuda) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--amp fp16 needs a GPU, but this worker computes on the CPU: give --amp bf16 or off");
}

/// Chooses channels last for tensor cores, which need it. On one CPU thread with PyTorch 2.11, a step with
/// channels last takes 0.90 of the time for a frozen ResNet at 224, 1.04 for cnnB and 1.57 for the U-Net.
void ResolveFormat(const ProgramRules& program, const TrainOptions& options, ResolvedRun& run) {
  run.channels_last = options.channels_last == "on";
  if (options.channels_last != "auto") return;
  run.channels_last = run.device.cuda ? run.precision != "fp32" : program.channels_last_on_cpu;
  run.derived.push_back(
      {"channels_last", run.channels_last ? "on" : "off", absl::StrCat("auto, on ", DeviceText(run.device))});
}

}  // namespace

std::string ResolvedRun::Describe() const {
  return absl::StrCat("images of ", Square(image_size),
                      batch_image_size == image_size ? "" : " from " + Square(batch_image_size), ", ",
                      DeviceText(device), ", ", threads, threads == 1 ? " thread, " : " threads, ", precision,
                      channels_last ? ", channels last" : "");
}

int FittingSide(const ImageRule& rule, const TrainOptions& options) {
  if (options.image_size != 0) return options.image_size;
  return rule.size != 0 ? rule.size : options.reading.growth.from;
}

absl::StatusOr<ResolvedRun> ResolveRun(const ProgramRules& program, const TrainOptions& options,
                                       const MachineFacts& machine) {
  ResolvedRun run;
  MT_RETURN_IF_ERROR(FitImages(program, options, machine, run));
  ResolveThreads(options, machine, run);
  MT_RETURN_IF_ERROR(ResolveDevice(options, machine, run));
  MT_RETURN_IF_ERROR(ResolvePrecision(options, run));
  ResolveFormat(program, options, run);
  return run;
}

}  // namespace mtrun::trainers
