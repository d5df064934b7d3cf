// A training program: its description, and its execution from start to exit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/collectives/device_group.h"
#include "trainers/program/resolve_run.h"
#include "trainers/run/rules/options.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// Arguments for making a task. The references must stay valid until it is made.
struct TaskInputs {
  const Settings& settings;
  const TrainOptions& options;
  int64_t classes;      // number of classes of the data
  int image_size;       // side in pixels that the network computes with
  int eval_image_size;  // the same for test images
  int enlarged_from;    // side of images that are enlarged to image_size; 0: none are
  at::Device device;
  bool first;                              // rank 0, which logs warnings
  std::vector<int64_t> class_counts = {};  // training images of each class; empty: no training
};

struct Program {
  std::string name;                   // also names the settings' section and the run folder
  std::string summary;                // one sentence for --help
  std::string usage = "";             // for --help: its own use instead of training; "": --predict
  std::string example = "";           // for --help: flags that it needs to train on data/fashion-mnist
  Recipe recipe;                      // defaults of the common settings
  std::vector<Option> settings = {};  // the program's own settings
  std::vector<std::pair<std::string, std::string>> aliases = {};  // alternative names of settings
  ImageRule images = {};
  bool channels_last_on_cpu = false;  // meaning of --channels_last auto on a CPU
  bool needs_test_images = true;      // false: without a test split, the training images are evaluated
  /// Files of program/python for model.py of --export, in order. {}: the file with the program's name.
  std::vector<std::string> python = {};
  /// A pure function of the settings and their seed. Can throw LibTorch's exceptions.
  std::function<absl::StatusOr<std::unique_ptr<Task>>(const TaskInputs&)> make_task = {};

  /// Optional. Derives common settings that the user left open from the program's own, before there is a run.
  std::function<void(Settings&)> derive = {};
  /// Optional. Decides what the program's own settings leave open and enters it into their table, identically
  /// on each worker. `continued`: identity of the checkpoint to continue, or empty. `first`: rank 0, which
  /// logs.
  std::function<absl::Status(const checkpoints::Identity& continued, bool first, Settings&)> resolve = {};
  /// Optional. Derives membership from the program's own settings, by adding a launcher's variables to the
  /// environment.
  std::function<absl::Status(const Settings&, EnvironmentMap&)> launch = {};
  /// Optional. Makes a device group for gradients in host memory, beside the CPU group. Null: none.
  collectives::DeviceMaker devices = {};
  /// Optional. Does what the settings ask for instead of training. nullopt: train.
  std::function<std::optional<absl::Status>(const Settings&)> alternate_main = {};
};

/// Returns whether weights record this setting of the program. Their origin (--weights) is not recorded,
/// because it is a path on one machine.
inline bool IsOfNetwork(const Option& option) {
  return option.scope == Scope::kRun && option.spec.name != "weights";
}

/// Reads settings and data, joins the other workers, trains, evaluates and reports. Exit status: 0; 2 if it
/// fails before it joins the other workers (settings, data, weights, run folder), because a restart would
/// fail again; 1 if it fails later. The reason is on standard error, and in TORCHELASTIC_ERROR_FILE.
int RunProgram(int argc, char** argv, const Program& program);

}  // namespace mtrun::trainers
