// A run as described by its folder (docs/formats.md, "Run folders"), of this or an earlier release, for its
// page. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mtrun::report {

struct StepPoint {
  int64_t step = 0;  // counted from 0
  double loss = 0, learning_rate = 0, seconds = 0;
  int64_t samples = 0;
};

struct EpochPoint {
  int64_t epoch = 0, steps = 0;  // finished
  double train_loss = 0, test_loss = 0;
  std::optional<double> train_accuracy = {}, test_accuracy = {};  // missing if there are no classes
  double seconds = 0;                                             // training time
  bool validation = false;  // test_loss and test_accuracy refer to validation images
};

/// One membership of the run. Unknown values are 0 or empty, because releases differ in what they write.
struct Generation {
  uint64_t number = 0;
  int64_t first_step = 0;
  int world = 0;
  std::vector<std::pair<std::string, int64_t>> members;  // host, workers
  std::string why;                                       // why the previous generation ended
  double time = 0;                                       // seconds since 1970
  std::optional<double> lost;                            // seconds without a step
  int64_t redone = 0;                                    // steps repeated from the previous generation
};

/// Each worker's speed: seconds per step, by rank.
struct WorkerPoint {
  int64_t steps = 0;
  std::vector<double> compute, wait, data;
  std::optional<int> straggler;
};

struct ClassRow {
  std::string name;
  double precision = 0, recall = 0, f1 = 0, specificity = 0;  // NaN if unknown
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

/// A test image that says much about the classifier.
struct NotableImage {
  int64_t image = 0;  // its number in the split
  size_t label = 0, guess = 0;
  double probability = 0;  // of the guess
  std::string png = "";    // "": there is none
};

/// The contents of report.json, which only a complete run has.
struct Result {
  std::string program = "";
  std::optional<double> test_accuracy = {}, best_accuracy = {};
  double test_loss = 0;
  bool chosen_by_validation = false;  // best epoch and best_accuracy are by validation images
  int64_t tested_epoch = 0;           // epoch whose weights were tested, 0: the final weights
  int64_t best_epoch = 0, epochs = 0, steps = 0, micro_batch = 0, world = 0, nodes = 0;
  double seconds = 0, training_seconds = 0, images_per_second = 0;
  std::vector<ClassRow> classes = {};
  std::vector<std::vector<int64_t>> confusion = {};  // rows are actual classes
  /// Returns true if the matrix shows that the class has no test images, so its figures mean nothing.
  bool IsUntested(const ClassRow& row) const { return !confusion.empty() && row.images == 0; }
};

using Table = std::vector<std::pair<std::string, std::string>>;

struct RunRecord {
  std::string name;              // name of the folder
  std::string program;           // "cnnA"
  std::vector<StepPoint> steps;  // in order, without steps that were rolled back
  std::vector<EpochPoint> epochs;
  std::vector<Generation> generations;
  std::vector<std::pair<int64_t, int>> worlds;  // first step, world size
  std::vector<WorkerPoint> workers;
  std::vector<std::pair<int64_t, double>> saves;  // steps, seconds without a step
  std::vector<Checkpoint> checkpoints;
  std::vector<Picture> pictures;
  std::vector<NotableImage> mistakes, uncertain;  // the most probable guesses first; the least probable ones
  Table settings, environment;
  std::optional<Result> result;
  int64_t unread_lines = 0;  // left by a killed writer, or written by a later release
};

/// Returns the data set of the epochs' evaluations: "validation" or "test".
inline const char* EvaluatedOn(const RunRecord& run) {
  return !run.epochs.empty() && run.epochs.back().validation ? "validation" : "test";
}

}  // namespace mtrun::report
