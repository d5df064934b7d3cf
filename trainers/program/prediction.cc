#include "trainers/program/prediction.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/string_view.h"
#include "nlohmann/json.hpp"
#include "trainers/program/prediction_page.h"

namespace mtrun::trainers {
namespace {

std::string Number(double value) { return absl::StrFormat("%.17g", value); }

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string JsonLine(const Prediction& prediction) {
  using nlohmann::json;
  json line = {{"file", prediction.file}};
  if (!prediction.error.empty()) line["error"] = prediction.error;
  if (prediction.error.empty()) {
    line["top"] = json::array();
    for (const auto& [name, probability] : prediction.best)
      line["top"].push_back({{"class", name}, {"probability", probability}});
  }
  // File names are not always UTF-8.
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::pair<std::string, double>> TopK(const std::vector<double>& probabilities,
                                                 const std::vector<std::string>& classes, size_t k) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  std::vector<std::pair<std::string, double>> best;
  for (size_t i = 0; i < std::min(k, order.size()); ++i)
    best.emplace_back(classes.at(order[i]), probabilities[order[i]]);
  return best;
}

absl::StatusOr<PredictionFormat> FormatOf(std::string_view file) {
  if (absl::EndsWith(View(file), ".csv")) return PredictionFormat::kCsv;
  if (absl::EndsWith(View(file), ".jsonl")) return PredictionFormat::kJsonLines;
  if (absl::EndsWith(View(file), ".html")) return PredictionFormat::kPage;
  return absl::InvalidArgumentError(
      absl::StrCat("--out \"", View(file), "\": give a file that ends in .csv, .jsonl or .html"));
}

std::string HeadLine(PredictionFormat format, size_t k) {
  if (format == PredictionFormat::kJsonLines) return "";
  if (format == PredictionFormat::kPage) return PredictionPageHead();
  std::string line = "file";
  for (size_t i = 1; i <= k; ++i) absl::StrAppend(&line, ",class_", i, ",probability_", i);
  return line + ",error\n";
}

std::string TailLine(PredictionFormat format) {
  return format == PredictionFormat::kPage ? PredictionPageTail() : "";
}

std::string ToLine(const Prediction& prediction, PredictionFormat format, size_t k) {
  if (format == PredictionFormat::kJsonLines) return JsonLine(prediction);
  if (format == PredictionFormat::kPage) return PredictionPageEntry(prediction);
  std::string line = Quoted(prediction.file);
  for (size_t i = 0; i < k; ++i) {
    const bool there = i < prediction.best.size();
    absl::StrAppend(&line, ",", there ? Quoted(prediction.best[i].first) : "", ",",
                    there ? Number(prediction.best[i].second) : "");
  }
  return absl::StrCat(line, ",", Quoted(prediction.error), "\n");
}

}  // namespace mtrun::trainers
