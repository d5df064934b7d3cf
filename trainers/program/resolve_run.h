// Resolves what a worker computes with (image size, threads, device, precision, memory format) from the
// settings and from this machine. Pure functions, independent of LibTorch.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/device/device.h"
#include "trainers/input/residency.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

/// Image sizes that a network takes.
struct ImageRule {
  int size = 32;            // pixels a side; 0: as in the data
  bool adjustable = false;  // --image_size can change it
  bool enlarges = false;    // the task enlarges smaller images itself, on the device
  bool any_size = false;    // the network takes any image size, which can change from batch to batch
};

/// Rules of a program.
struct ProgramRules {
  std::string name;
  ImageRule images;
  bool channels_last_on_cpu = false;  // meaning of --channels_last auto on a CPU
};

/// Facts about a worker's machine and its data.
struct MachineFacts {
  int gpus = 0;            // visible and usable GPUs
  int cores = 1;           // of the node
  int openmp_threads = 0;  // from OMP_NUM_THREADS; 0: not set
  int local_rank = 0, local_world_size = 1;
  int image_height = 0, image_width = 0;  // size of the largest images, in pixels
  bool images_vary = false;               // images differ in size
};

/// A setting that the run fills in, and the reason for its value.
struct DerivedSetting {
  std::string name, value, source;
  bool operator==(const DerivedSetting&) const = default;
};

struct ResolvedRun {
  int image_size = 0;        // side in pixels that the network computes with
  int batch_image_size = 0;  // side of images that come to the device
  int eval_image_size = 0;   // the same two for test images
  int eval_batch_image_size = 0;
  int enlarged_from = 0;  // side of images that are enlarged on the device; 0: none are
  int threads = 1;
  int read_threads = 1;  // threads that decode training images
  DeviceChoice device;
  std::string precision = "fp32";  // fp32, bf16 or fp16
  bool channels_last = false;
  std::vector<DerivedSetting> derived;  // for the table of settings, in order
  bool operator==(const ResolvedRun&) const = default;
  /// Returns one line for the user.
  std::string Describe() const;
};

/// Returns an image side, in pixels, that fits the size settings, for use if the data has not been read.
int FittingSide(const ImageRule& rule, const TrainOptions& options);

/// Returns kInvalidArgument if a setting is impossible. The message names it and what to give instead.
absl::StatusOr<ResolvedRun> ResolveRun(const ProgramRules& program, const TrainOptions& options,
                                       const MachineFacts& machine);

}  // namespace mtrun::trainers
