// What a classifier says of one image, as a line of a file. Pure, free of LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

struct Prediction {
  std::string file;
  std::string error = "";  // why the file could not be read; then there are no classes
  std::vector<std::pair<std::string, double>> best = {};  // class and probability, most probable first
};

/// The `k` most probable of the classes, fewer where there are not so many; among equals the earlier one
/// first.
std::vector<std::pair<std::string, double>> TopK(const std::vector<double>& probabilities,
                                                 const std::vector<std::string>& classes, size_t k);

enum class PredictionFormat { kCsv, kJsonLines };
/// By the end of the name: .csv, .jsonl. kInvalidArgument for another one.
absl::StatusOr<PredictionFormat> FormatOf(std::string_view file);

/// The first line of a file: the names of the columns; "" for JSON lines.
std::string HeadLine(PredictionFormat format, size_t k);
/// CSV (RFC 4180): file, class_1, probability_1, ..., error. JSON: {"file": ..., "top": [{"class",
/// "probability"},
/// ...]} or {"file": ..., "error": ...}. Probabilities have all their digits.
std::string ToLine(const Prediction& prediction, PredictionFormat format, size_t k);

}  // namespace mtrun::trainers
