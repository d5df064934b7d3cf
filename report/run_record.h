// A run as its folder tells of it (docs/formats.md, "Run folders"), of this release or an earlier one: what a
// page about it shows. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mtrun::report {

struct StepPoint {
  int64_t step = 0;  // from 0
  double loss = 0, learning_rate = 0, seconds = 0;
  int64_t samples = 0;
};

struct EpochPoint {
  int64_t epoch = 0, steps = 0;  // finished
  double train_loss = 0, test_loss = 0;
  std::optional<double> train_accuracy = {}, test_accuracy = {};  // nothing without classes
  double seconds = 0;                                             // of training
  bool validation = false;  // test_loss and test_accuracy are of the validation images
};

/// A membership of the run. What is not known is 0 or empty: releases differ in what they write.
struct Generation {
  uint64_t number = 0;
  int64_t first_step = 0;
  int world = 0;
  std::vector<std::pair<std::string, int64_t>> members;  // host, workers
  std::string why;                                       // the one before it ended
  double time = 0;                                       // seconds since 1970
  std::optional<double> lost;                            // seconds without a step
  std::string lost_to;                                   // its parts, for people
  int64_t redone = 0;                                    // steps that it took back
};

/// Who was how fast: seconds of a step, by rank.
struct WorkerPoint {
  int64_t steps = 0;
  std::vector<double> compute, wait, data;
  std::optional<int> straggler;
};

struct ClassRow {
  std::string name;
  double precision = 0, recall = 0, f1 = 0, specificity = 0;
  int64_t images = 0;
};

struct Checkpoint {
  int64_t steps = 0, bytes = 0;
  std::string weights;  // SHA-256 of model.safetensors
  bool best = false;
};

struct Picture {
  std::string name;  // "samples_0001000.png"
  std::string png;
};

/// report.json; only of a run that is complete.
struct Result {
  std::string program = "";
  std::optional<double> test_accuracy = {}, best_accuracy = {};
  double test_loss = 0, best_loss = 0;
  bool chosen_by_validation = false;  // the best epoch: best_accuracy and best_loss are of those images
  int64_t tested_epoch = 0;           // whose weights the test images were evaluated with, 0: the final ones
  int64_t best_epoch = 0, epochs = 0, steps = 0, global_batch = 0, micro_batch = 0, world = 0, nodes = 0;
  double seconds = 0, training_seconds = 0, images_per_second = 0;
  std::vector<ClassRow> classes = {};
  std::vector<std::vector<int64_t>> confusion = {};  // rows actual
};

using Table = std::vector<std::pair<std::string, std::string>>;

struct RunRecord {
  std::string name;              // of its folder
  std::string program;           // "cnnA"
  std::vector<StepPoint> steps;  // in order, without those that were taken back
  std::vector<EpochPoint> epochs;
  std::vector<Generation> generations;
  std::vector<std::pair<int64_t, int>> worlds;  // from step, world size
  std::vector<WorkerPoint> workers;
  std::vector<std::pair<int64_t, double>> saves;  // steps, seconds without a step
  std::vector<Checkpoint> checkpoints;
  std::vector<Picture> pictures;
  Table settings, environment;
  std::optional<Result> result;
  int64_t unread_lines = 0;  // of a killed writer, or of a later release
};

/// What the epochs were evaluated on: "validation" or "test".
inline const char* EvaluatedOn(const RunRecord& run) {
  return !run.epochs.empty() && run.epochs.back().validation ? "validation" : "test";
}

}  // namespace mtrun::report
