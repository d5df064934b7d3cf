// Prepares a training program before it computes: settings, workers, data, machine, network.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "trainers/collectives/frame_cipher.h"
#include "trainers/device/amp.h"
#include "trainers/device/graph.h"
#include "trainers/input/batch.h"
#include "trainers/membership/agent_connection.h"
#include "trainers/membership/assignment.h"
#include "trainers/program/data.h"
#include "trainers/program/description.h"
#include "trainers/program/program.h"
#include "trainers/program/resolve_run.h"
#include "trainers/run/arrival/data_arrival.h"

namespace mtrun::trainers {

/// State of a run before it trains.
struct Run {
  const Program& program;
  EnvironmentMap environment;
  const TimePoint start;
  Settings settings;
  std::vector<std::string> files;  // further files of --predict
  TrainOptions options;
  Assignment assignment;
  Precision precision = Precision::kFp32;
  GraphFactory graphs = nullptr;  // --graph
  ResolvedRun resolved = {};
  Duration data_wait = {};                           // time spent waiting for a server's data
  DataArrival* arrival = nullptr;                    // of data that comes during training
  std::unique_ptr<AgentConnection> agent = nullptr;  // receives reports while this worker waits to be ready
  bool continues = true;                             // from a checkpoint in the model_folder, if there is one
  std::optional<Settings> given = {};                // the settings before ReadFolder derives any
  bool joined = false;  // from here on, a failure might not recur after a restart
};

ProgramRules RulesOf(const Program& program);

/// Returns whether a setting without a default was set to true.
bool Asked(const Settings& settings, const char* name);

/// Reads membership and options. The settings have been read before.
absl::Status ReadRun(Run& run);

/// Reads what depends on the run folder: whether the run continues, its batch, and so the options.
absl::Status ReadFolder(Run& run);

/// Decides what the settings leave open and enters it into their table. Uses no device.
absl::Status ResolveSettings(Run& run, const ImageShape& images);
/// Does the same, and readies the device.
absl::StatusOr<BatchOptions> Resolve(Run& run, const ImageShape& images);
/// Does the same for the program's own settings. If `continues`, the newest checkpoint says how the run
/// began. If `tells`, rank 0 logs what a user may not expect.
absl::Status ResolveOwn(Run& run, bool continues, bool tells = true);

/// Returns the options for test images, after Resolve. Their size is constant and can differ from that of
/// training images.
BatchOptions TestBatch(const Run& run, BatchOptions batch);

/// Returns the description that this run's weights record of their network, after Resolve.
Description Describe(const Run& run, const ImageShape& images, const std::vector<std::string>& classes,
                     const BatchOptions& test_batch);

/// `class_counts`: training images of each class; empty: the task will not train.
absl::StatusOr<std::unique_ptr<Task>> MakeTaskOf(const Run& run, int64_t classes, const BatchOptions& batch,
                                                 std::vector<int64_t> class_counts = {});

collectives::Protection ProtectionOf(const TrainOptions& options);

}  // namespace mtrun::trainers
