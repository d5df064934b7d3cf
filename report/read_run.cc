#include "report/read_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_lines.h"
#include "base/posix.h"
#include "base/string_view.h"
#include "report/run_reader.h"

namespace mtrun::report {
namespace {

namespace fs = std::filesystem;

/// Of sample pictures the last ones are shown.
constexpr size_t kMostPictures = 4, kMostPictureBytes = 8 << 20;

/// Lines of a file that may be very long; what is too long for a line ends the reading.
void EachLine(const std::string& path, const std::function<void(std::string_view)>& take) {
  std::ifstream file(path, std::ios::binary);
  LineBuffer lines(RunReader::kMostLineBytes);
  std::string block(1 << 20, '\0');
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (!lines.Append(std::string_view(block).substr(0, static_cast<size_t>(file.gcount()))).ok()) return;
    while (const auto line = lines.Next()) take(*line);
  }
}

std::string TextOf(const std::string& path) {
  return ReadFileStart(path, RunReader::kMostFileBytes).value_or("");
}

/// N of "step_N".
std::optional<int64_t> StepsOf(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  int64_t steps = 0;
  if (name.rfind(kPrefix, 0) != 0 ||
      !absl::SimpleAtoi(View(std::string_view(name).substr(kPrefix.size())), &steps))
    return std::nullopt;
  return steps;
}

bool IsPicture(const std::string& name) {
  const bool ours = name == "preview.png" || name.rfind("samples", 0) == 0;
  return ours && fs::path(name).extension() == ".png";
}

}  // namespace

absl::StatusOr<RunRecord> ReadRun(const std::string& folder) {
  const std::string metrics = folder + "/metrics.jsonl", config = folder + "/config.yaml";
  std::error_code error;
  if (!fs::exists(metrics, error) && !fs::exists(config, error)) {
    return absl::NotFoundError(absl::StrCat(folder, " is no run folder: it has neither metrics.jsonl nor ",
                                            "config.yaml (a trainer's --model_folder has both)"));
  }
  RunReader reader;
  EachLine(metrics, [&](std::string_view line) { reader.AddMetrics(line); });
  EachLine(folder + "/ledger.jsonl", [&](std::string_view line) { reader.AddLedger(line); });
  reader.AddSettings(TextOf(config));
  reader.AddEnvironment(TextOf(folder + "/environment.json"));
  reader.AddResult(TextOf(folder + "/report.json"));
  std::vector<std::string> pictures;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (IsPicture(name)) pictures.push_back(name);
    if (const auto steps = StepsOf(name); steps && fs::exists(entry.path() / "DONE", error))
      reader.AddCheckpoint(*steps, TextOf(entry.path() / "DONE"));
  }
  RunRecord run = reader.Take();
  run.name = fs::absolute(folder).lexically_normal().filename();
  if (run.name.empty()) run.name = fs::absolute(folder).lexically_normal().parent_path().filename();
  std::sort(pictures.begin(), pictures.end());  // preview first, then by step
  if (pictures.size() > kMostPictures)
    pictures.erase(pictures.begin() + 1, pictures.end() - (kMostPictures - 1));
  for (const std::string& name : pictures) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (fs::file_size(path, error) > kMostPictureBytes || error) continue;
    run.pictures.push_back({name, TextOf(path)});
  }
  return run;
}

}  // namespace mtrun::report
