// What a command would train, as text for --check. Pure functions, independent of LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainers/program/data.h"
#include "trainers/program/resolve_run.h"
#include "trainers/run/rules/run_length.h"

namespace mtrun::trainers {

struct RunOutline {
  std::string program;
  std::string data;  // folder
  ImageShape images = {};
  int64_t train_images = 0, test_images = 0;  // `test_images` are evaluated after each epoch
  int64_t final_images = 0;                   // tested after training; 0: those of each epoch
  int64_t classes = 0;                        // of the task; 0: it has none
  int64_t parameters = 0, trained = 0;        // numbers in the network, and those that training changes
  std::string weights = "";                   // file that it starts from; "": random numbers
  ResolvedRun resolved = {};
  datasets::BatchPlan plan = {};
  RunLength length = {};
  LrSchedule schedule = {};
  std::string folder = "";                // of the run
  std::optional<int64_t> continued = {};  // steps of the newest checkpoint
};

/// Returns "cosine: 0 at step 0, 0.001 at step 100, 0.0005 at step 5000, 2.5e-10 at step 9999".
std::string LearningRateText(const LrSchedule& schedule, int64_t steps);

inline constexpr size_t kOutlineColumns = 17;  // before the text of each line
/// Returns some lines: data, network, steps, learning rate, run folder, cautions.
std::string OutlineText(const RunOutline& outline);

}  // namespace mtrun::trainers
