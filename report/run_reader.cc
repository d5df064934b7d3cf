#include "report/run_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json_text.h"
#include "base/string_view.h"

namespace mtrun::report {
namespace {

using nlohmann::json;

const json& At(const json& object, const char* key) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNothing : *found;
}

/// Stands for numbers that are missing, null or of another type.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double NumberOf(const json& value, double otherwise = kNone) {
  return value.is_number() ? value.get<double>() : otherwise;
}
double Number(const json& object, const char* key, double otherwise = kNone) {
  return NumberOf(At(object, key), otherwise);
}
std::optional<double> Maybe(const json& object, const char* key) {
  const double number = Number(object, key);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}
/// Counters stay far below this; a larger number is treated as missing, so that no arithmetic overflows.
constexpr int64_t kMaxWhole = int64_t{1} << 53;
int64_t Whole(const json& object, const char* key, int64_t otherwise = 0) {
  const int64_t number = WholeNumber<int64_t>(At(object, key)).value_or(otherwise);
  return number > kMaxWhole || number < -kMaxWhole ? otherwise : number;
}
int WholeInt(const json& object, const char* key) { return WholeNumber<int>(At(object, key)).value_or(0); }
std::string Text(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}
std::vector<double> Numbers(const json& object, const char* key) {
  std::vector<double> numbers;
  for (const json& value : At(object, key)) numbers.push_back(NumberOf(value));
  return numbers;
}

/// Reads a matrix with as many rows and columns as classes, and sets each class's number of images. A matrix
/// of another size is left out: to fill it up could need far more memory than the file's size.
void ReadMatrix(const json& rows, Result& result) {
  const size_t classes = result.classes.size();
  if (rows.size() != classes) return;
  for (const json& row : rows) {
    if (row.size() != classes) return;
  }
  for (const json& row : rows) {
    result.confusion.emplace_back();
    for (const json& count : row) {
      result.confusion.back().push_back(
          std::clamp<int64_t>(WholeNumber<int64_t>(count).value_or(0), 0, int64_t{1} << 40));
    }
  }
  for (size_t c = 0; c < result.confusion.size(); ++c) {
    for (const int64_t count : result.confusion[c]) result.classes[c].images += count;
  }
}

/// Reads a list of notable.json; leaves out entries of unknown classes, and pictures that are none.
std::vector<NotableImage> ReadNotable(const json& list, size_t classes) {
  constexpr size_t kMaxImages = 100, kMaxPngBytes = 1 << 20;
  constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
  std::vector<NotableImage> images;
  if (!list.is_array()) return images;
  for (const json& entry : list) {
    const auto label = WholeNumber<size_t>(At(entry, "label")),
               guess = WholeNumber<size_t>(At(entry, "guess"));
    if (!label || !guess || *label >= classes || *guess >= classes || images.size() == kMaxImages) continue;
    NotableImage image{.image = Whole(entry, "image"),
                       .label = *label,
                       .guess = *guess,
                       .probability = Number(entry, "probability")};
    std::string png;
    const std::string text = Text(entry, "png");
    if (text.size() <= kMaxPngBytes && absl::Base64Unescape(text, &png) && png.rfind(kPngStart, 0) == 0)
      image.png = std::move(png);
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 1) return absl::StrFormat("%.0f ms", 1e3 * seconds);
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 7200)
    return absl::StrFormat("%d min %02d s", static_cast<int64_t>(seconds) / 60,
                           static_cast<int64_t>(seconds) % 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

void RunReader::AddMetrics(std::string_view text) {
  const auto line = ParseJsonObject(text, kMaxLineBytes);
  if (!line.ok()) {
    ++run_.unread_lines;
  } else if (const auto rewind = WholeNumber<int64_t>(At(*line, "rewind"))) {
    Rewind(*rewind);
  } else if (line->contains("step")) {
    AddStep(*line);
  } else if (line->contains("eval")) {
    AddEpoch(*line);
  } else if (line->contains("generation")) {
    AddGeneration(*line);
  } else if (line->contains("regroup")) {
    AddRegroup(*line);
  } else if (line->contains("workers")) {
    AddWorkers(*line);
  } else if (line->contains("save")) {
    run_.saves.emplace_back(Whole(*line, "save"), Number(*line, "stall", 0));
  } else if (line->contains("data_wait")) {
    // Not shown.
  } else {
    ++run_.unread_lines;
  }
}

void RunReader::AddStep(const json& line) {
  const StepPoint point{.step = Whole(line, "step", -1),
                        .loss = Number(line, "loss"),
                        .learning_rate = Number(line, "lr"),
                        .seconds = Number(line, "seconds"),
                        .samples = Whole(line, "samples")};
  const bool follows = run_.steps.empty() || point.step > run_.steps.back().step;
  if (point.step < 0 || !follows) {
    ++run_.unread_lines;
  } else {
    run_.steps.push_back(point);
  }
}

void RunReader::AddEpoch(const json& line) {
  const bool validation = line.contains("val_loss");
  const EpochPoint point{.epoch = Whole(line, "eval"),
                         .steps = Whole(line, "steps"),
                         .train_loss = Number(line, "train_loss"),
                         .test_loss = Number(line, validation ? "val_loss" : "test_loss"),
                         .train_accuracy = Maybe(line, "train_accuracy"),
                         .test_accuracy = Maybe(line, validation ? "val_accuracy" : "test_accuracy"),
                         .seconds = Number(line, "seconds"),
                         .validation = validation};
  // A run that continues from an earlier step evaluates the epoch again.
  std::erase_if(run_.epochs, [&](const EpochPoint& other) { return other.epoch >= point.epoch; });
  run_.epochs.push_back(point);
}

void RunReader::Rewind(int64_t step) {
  const auto first = std::lower_bound(run_.steps.begin(), run_.steps.end(), step,
                                      [](const StepPoint& point, int64_t s) { return point.step < s; });
  redone_ += run_.steps.end() - first;
  run_.steps.erase(first, run_.steps.end());
  std::erase_if(run_.epochs, [&](const EpochPoint& point) { return point.steps > step; });
  std::erase_if(run_.workers, [&](const WorkerPoint& point) { return point.steps > step; });
}

/// Appends a generation unless it is already the last one.
Generation& RunReader::GenerationOf(uint64_t number, int64_t step) {
  const bool full = run_.generations.size() == kMaxGenerations;
  if (!full && (run_.generations.empty() || run_.generations.back().number != number)) {
    Generation& generation = run_.generations.emplace_back();
    generation.number = number;
    generation.first_step = step;
    generation.redone = redone_;
    redone_ = 0;
  }
  return run_.generations.back();
}

void RunReader::AddGeneration(const json& line) {
  Generation& generation =
      GenerationOf(WholeNumber<uint64_t>(At(line, "generation")).value_or(0), Whole(line, "steps"));
  generation.world = WholeInt(line, "world");
  generation.why = Text(line, "why");
  generation.time = Number(line, "time", 0);
  generation.members.clear();
  for (const json& member : At(line, "members")) {
    if (member.is_array() && member.size() == 2 && member[0].is_string())
      generation.members.emplace_back(member[0], WholeNumber<int64_t>(member[1]).value_or(0));
  }
}

void RunReader::AddRegroup(const json& line) {
  Generation& generation = GenerationOf(WholeNumber<uint64_t>(At(line, "regroup")).value_or(0),
                                        std::max<int64_t>(0, Whole(line, "steps") - 1));
  generation.world = WholeInt(line, "world");
  double lost = 0;
  for (const char* part : {"assign", "connect", "state", "first_step"}) lost += Number(line, part, 0);
  generation.lost = lost;
}

void RunReader::AddWorkers(const json& line) {
  if (run_.workers.size() == kMaxWorkerPoints) return;
  WorkerPoint point{.steps = Whole(line, "workers"),
                    .compute = Numbers(line, "compute"),
                    .wait = Numbers(line, "wait"),
                    .data = Numbers(line, "data"),
                    .straggler = WholeNumber<int>(At(line, "straggler"))};
  const size_t workers = std::min({point.compute.size(), point.wait.size(), point.data.size()});
  for (auto* part : {&point.compute, &point.wait, &point.data}) part->resize(workers);
  run_.workers.push_back(std::move(point));
}

void RunReader::AddLedger(std::string_view text) {
  const auto line = ParseJsonObject(text, kMaxLineBytes);
  if (!line.ok()) return;
  if (const auto rewind = WholeNumber<int64_t>(At(*line, "rewind"))) {
    std::erase_if(run_.worlds, [&](const auto& world) { return world.first >= *rewind; });
  }
  const auto step = WholeNumber<int64_t>(At(*line, "step"));
  const int world = WholeInt(*line, "world");
  const auto generation = WholeNumber<uint64_t>(At(*line, "generation")).value_or(0);
  // Ignore lines from a writer that did not know that its generation was over.
  if (!step || world < 1 || generation < ledger_generation_) return;
  ledger_generation_ = generation;
  if (run_.worlds.empty() || run_.worlds.back().second != world) run_.worlds.emplace_back(*step, world);
}

void RunReader::AddSettings(std::string_view yaml) {
  for (const absl::string_view line : absl::StrSplit(View(yaml), '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const std::string name(absl::StripAsciiWhitespace(parts.first));
    std::string value(absl::StripAsciiWhitespace(parts.second));
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    if (line.front() != ' ') {
      run_.program = name;
    } else {
      run_.settings.emplace_back(name, value);
    }
  }
}

void RunReader::AddEnvironment(std::string_view text) {
  const auto object = ParseJsonObject(text, kMaxFileBytes);
  if (!object.ok()) return;
  for (const auto& [key, value] : object->items()) {
    if (key == "format") continue;
    run_.environment.emplace_back(key, value.is_string()
                                           ? value.get<std::string>()
                                           : value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

void RunReader::AddResult(std::string_view text) {
  const auto object = ParseJsonObject(text, kMaxFileBytes);
  if (!object.ok()) return;
  Result result{.program = Text(*object, "program"),
                .test_accuracy = Maybe(*object, "test_accuracy"),
                .best_accuracy = Maybe(*object, "best_accuracy"),
                .test_loss = Number(*object, "test_loss"),
                .chosen_by_validation = At(*object, "chosen_by_validation") == json(true),
                .tested_epoch = Whole(*object, "tested_epoch"),
                .best_epoch = Whole(*object, "best_epoch"),
                .epochs = Whole(*object, "epochs"),
                .steps = Whole(*object, "steps"),
                .micro_batch = Whole(*object, "micro_batch"),
                .world = Whole(*object, "world_size"),
                .nodes = Whole(*object, "nodes"),
                .seconds = Number(*object, "seconds"),
                .training_seconds = Number(*object, "training_seconds"),
                .images_per_second = Number(*object, "images_per_second"),
                .classes = {},
                .confusion = {}};
  const json& figures = At(*object, "per_class");
  const json& names = At(*object, "class_names");
  for (size_t c = 0; figures.is_array() && names.is_array() && c < std::min(figures.size(), names.size());
       ++c) {
    result.classes.push_back({.name = names[c].is_string() ? names[c].get<std::string>() : "?",
                              .precision = Number(figures[c], "precision"),
                              .recall = Number(figures[c], "recall"),
                              .f1 = Number(figures[c], "f1"),
                              .specificity = Number(figures[c], "specificity"),
                              .images = 0});
  }
  ReadMatrix(At(*object, "confusion_rows_actual"), result);
  run_.result = std::move(result);
}

void RunReader::AddNotable(std::string_view text) {
  const auto object = ParseJsonObject(text, kMaxFileBytes);
  if (!object.ok() || !run_.result) return;
  run_.mistakes = ReadNotable(At(*object, "mistakes"), run_.result->classes.size());
  run_.uncertain = ReadNotable(At(*object, "uncertain"), run_.result->classes.size());
}

void RunReader::AddCheckpoint(int64_t steps, std::string_view manifest) {
  Checkpoint checkpoint{.steps = steps, .bytes = 0, .weights = "", .best = false};
  const auto object = ParseJsonObject(manifest, kMaxFileBytes);
  if (!object.ok()) return;
  for (const auto& [name, file] : At(*object, "files").items()) {
    checkpoint.bytes += std::clamp<int64_t>(Whole(file, "bytes"), 0, 1LL << 50);
    if (name == "model.safetensors") checkpoint.weights = Text(file, "sha256");
  }
  run_.checkpoints.push_back(checkpoint);
}

RunRecord RunReader::Take() {
  if (run_.program.empty() && run_.result) run_.program = run_.result->program;
  std::sort(run_.checkpoints.begin(), run_.checkpoints.end(),
            [](const auto& a, const auto& b) { return a.steps < b.steps; });
  for (Checkpoint& checkpoint : run_.checkpoints) {
    for (const EpochPoint& epoch : run_.epochs) {
      checkpoint.best |=
          run_.result && epoch.epoch == run_.result->best_epoch && epoch.steps == checkpoint.steps;
    }
  }
  return std::exchange(run_, {});
}

}  // namespace mtrun::report
