// A classifier's prediction for one image, as a line of a file. Pure functions, independent of LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

struct Prediction {
  std::string file;
  std::string error = "";  // why the file could not be read; `best` is then empty
  std::vector<std::pair<std::string, double>> best = {};  // class and probability, most probable first
  std::string jpeg = "";                                  // small picture, for pages
};

/// Returns the `k` most probable classes, or all if there are fewer. Equal ones keep their order.
std::vector<std::pair<std::string, double>> TopK(const std::vector<double>& probabilities,
                                                 const std::vector<std::string>& classes, size_t k);

enum class PredictionFormat { kCsv, kJsonLines, kPage };
/// Returns the format for a name that ends in .csv, .jsonl or .html, and kInvalidArgument for any other name.
absl::StatusOr<PredictionFormat> FormatOf(std::string_view file);

/// Returns the begin of a file: the names of the columns, "" for JSON lines, or the begin of a page.
std::string HeadLine(PredictionFormat format, size_t k);
/// Returns the end of a file, which only pages have.
std::string TailLine(PredictionFormat format);
/// Returns a line of CSV (RFC 4180): file, class_1, probability_1, ..., error; or of JSON: {"file": ...,
/// "top": [{"class", "probability"}, ...]} or {"file": ..., "error": ...}; or of a page. Probabilities have all
/// digits, but not on a page.
std::string ToLine(const Prediction& prediction, PredictionFormat format, size_t k);

}  // namespace mtrun::trainers
