// What a worker computes with: image size, threads, device, precision, memory format and where the images
// lie, from the settings and from what this machine has. Pure functions, free of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/device/device.h"
#include "trainers/input/residency.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

/// Which images a network takes.
struct ImageRule {
  int size = 32;            // pixels a side; 0: those of the data
  bool adjustable = false;  // --image_size may say otherwise
  bool enlarges = false;    // the task enlarges smaller images itself, on the device
  bool any_size = false;    // the network takes images of any size, of another one each time
};

/// What a program says about itself.
struct ProgramRules {
  std::string name;
  ImageRule images;
  bool channels_last_on_cpu = false;  // what --channels_last auto means on a CPU
};

/// What a worker finds on its machine and in its data.
struct MachineFacts {
  int gpus = 0;            // that the process sees and can use
  int cores = 1;           // of the node
  int openmp_threads = 0;  // with OMP_NUM_THREADS: what it comes to; 0: it is not set
  int local_rank = 0, local_world_size = 1;
  int image_height = 0, image_width = 0;  // of the largest images, in pixels
  bool images_vary = false;               // in size
};

/// A setting that the run fills in, and from where.
struct DerivedSetting {
  std::string name, value, source;
  bool operator==(const DerivedSetting&) const = default;
};

struct ResolvedRun {
  int image_size = 0;        // pixels a side that the network computes with
  int batch_image_size = 0;  // and as images come to the device
  int eval_image_size = 0;   // likewise for test images
  int eval_batch_image_size = 0;
  int enlarged_from = 0;  // images that come with so many are enlarged on the device; 0: none are
  int threads = 1;
  int read_threads = 1;  // that decode training images
  DeviceChoice device;
  std::string precision = "fp32";  // fp32, bf16 or fp16
  bool channels_last = false;
  std::vector<DerivedSetting> derived;  // for the table of settings, in order
  bool operator==(const ResolvedRun&) const = default;
  /// One line for people.
  std::string Describe() const;
};

/// The side, in pixels, of images that go with the size settings: in place of those of data that nobody has
/// looked at.
int FittingSide(const ImageRule& rule, const TrainOptions& options);

/// kInvalidArgument names the setting that cannot be, and what to give instead.
absl::StatusOr<ResolvedRun> ResolveRun(const ProgramRules& program, const TrainOptions& options,
                                       const MachineFacts& machine);

}  // namespace mtrun::trainers
