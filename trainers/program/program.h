// A training program: what it says about itself, and its whole life.
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
#include "trainers/run/options.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// What a task is made of. The references live until the task is made.
struct TaskInputs {
  const Settings& settings;
  const TrainOptions& options;
  int64_t classes;      // of the data
  int image_size;       // that the network computes with
  int eval_image_size;  // likewise with test images
  int enlarged_from;    // images of so many pixels a side are to be enlarged to it; 0: none are
  at::Device device;
  bool first;  // rank 0: the one that warns
};

struct Program {
  std::string name;                   // of the program, its settings' section and its run folder
  std::string summary;                // one sentence for --help
  Recipe recipe;                      // defaults of the common settings
  std::vector<Option> settings = {};  // its own ones
  std::vector<std::pair<std::string, std::string>> aliases = {};  // other names of settings
  ImageRule images = {};
  bool channels_last_on_cpu = false;  // what --channels_last auto means on a CPU
  bool needs_test_images = true;      // false: a data set without them is evaluated on its training images
  /// Which files of program/python make the model.py of --export, in order; {}: the one of its name.
  std::vector<std::string> python = {};
  /// A pure function of the settings and their seed; may throw what LibTorch throws.
  std::function<absl::StatusOr<std::unique_ptr<Task>>(const TaskInputs&)> make_task = {};

  /// Optional. What its own settings leave open, decided and put into their table, by each worker alike.
  /// `continued`: what the checkpoint was made with that the run goes on from; empty without one. `first`:
  /// rank 0, the one that speaks.
  std::function<absl::Status(const checkpoints::Identity& continued, bool first, Settings&)> resolve = {};
  /// Optional. Membership from settings of its own: adds a launcher's variables to the environment.
  std::function<absl::Status(const Settings&, EnvironmentMap&)> launch = {};
  /// Optional. Beside the CPU group of each generation, for gradients that lie in memory; null: nothing is.
  collectives::DeviceMaker devices = {};
  /// Optional. What the settings ask for instead of training; nothing: train.
  std::function<std::optional<absl::Status>(const Settings&)> alternate_main = {};
};

/// Whether weights keep this one of a program's own settings. Not where they came from: a path of one
/// machine.
inline bool IsOfNetwork(const Option& option) {
  return option.scope == Scope::kRun && option.spec.name != "weights";
}

/// Settings, data, other workers, training, evaluation, report. Exit status: 0; 2 for what fails before the
/// other workers are met (settings, data, weights, run folder: a restart would fail again); 1 for what fails
/// later; the reason is on standard error (and in TORCHELASTIC_ERROR_FILE).
int RunProgram(int argc, char** argv, const Program& program);

}  // namespace mtrun::trainers
