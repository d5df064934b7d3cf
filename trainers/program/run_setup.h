// What a training program finds out before it computes: settings, workers, data, machine, network.
#pragma once

#include <memory>
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
#include "trainers/run/data_arrival.h"

namespace mtrun::trainers {

/// A run before it trains: what was asked for and what was found.
struct Run {
  const Program& program;
  EnvironmentMap environment;
  const TimePoint start;
  Settings settings;
  std::vector<std::string> files;  // --predict's further ones
  TrainOptions options;
  Assignment assignment;
  Precision precision = Precision::kFp32;
  GraphFactory graphs = nullptr;  // --graph
  ResolvedRun resolved = {};
  Duration data_wait = {};                           // for a server's data
  DataArrival* arrival = nullptr;                    // of data that come while it trains
  std::unique_ptr<AgentConnection> agent = nullptr;  // where this worker waits before it is ready
  bool continues = true;                             // from a checkpoint in the model_folder, if there is one
  bool joined = false;                               // what fails from now on may not fail again at a restart
};

ProgramRules RulesOf(const Program& program);

/// Whether a setting without a default was given as true.
bool Asked(const Settings& settings, const char* name);

/// Membership and options; the settings have been read.
absl::Status ReadRun(Run& run);

/// What the settings leave open, decided and put into their table.
absl::StatusOr<BatchOptions> Resolve(Run& run, const ImageShape& images);
/// The same of the program's own settings. `continues`: a run, whose newest checkpoint says how it began.
absl::Status ResolveOwn(Run& run, bool continues);

/// Of test images, after Resolve: of another size, perhaps, and always of the same one.
BatchOptions TestBatch(const Run& run, BatchOptions batch);

/// Of the network that this run trains or uses, after Resolve: what its weights say of themselves.
Description Describe(const Run& run, const ImageShape& images, const std::vector<std::string>& classes,
                     const BatchOptions& test_batch);

absl::StatusOr<std::unique_ptr<Task>> MakeTaskOf(const Run& run, int64_t classes, const BatchOptions& batch);

collectives::Protection ProtectionOf(const TrainOptions& options);

}  // namespace mtrun::trainers
