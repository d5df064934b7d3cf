#include "report/read_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/string_view.h"
#include "report/run_reader.h"

namespace mtrun::report {
namespace {

namespace fs = std::filesystem;

/// Only the last few sample pictures are shown.
constexpr size_t kMaxPictures = 4, kMaxPictureBytes = 8 << 20;

/// Appends, keeping one byte more of an overlong line than the reader accepts, so that it counts as unread.
void Lengthen(std::string& line, std::string_view more) {
  line.append(more.substr(0, RunReader::kMaxLineBytes + 1 - line.size()));
}

/// Calls `take` for each line of an ordinary file, however long; skips an unfinished last line.
void EachLine(const std::string& path, const std::function<void(std::string_view)>& take) {
  // O_NONBLOCK: do not wait for the writer of a pipe.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  std::string block(1 << 20, '\0'), line;
  while (true) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    std::string_view rest = std::string_view(block).substr(0, static_cast<size_t>(count));
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      Lengthen(line, rest.substr(0, end));
      take(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
    Lengthen(line, rest);
  }
}

std::string TextOf(const std::string& path) {
  return ReadFileStart(path, RunReader::kMaxFileBytes).value_or("");
}

/// Returns N of "step_N".
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
    return absl::NotFoundError(absl::StrCat(folder, " is not a run folder: it has neither metrics.jsonl nor ",
                                            "config.yaml (a trainer's --model_folder has both)"));
  }
  RunReader reader;
  EachLine(metrics, [&](std::string_view line) { reader.AddMetrics(line); });
  EachLine(folder + "/ledger.jsonl", [&](std::string_view line) { reader.AddLedger(line); });
  reader.AddSettings(TextOf(config));
  reader.AddEnvironment(TextOf(folder + "/environment.json"));
  reader.AddResult(TextOf(folder + "/report.json"));
  reader.AddNotable(TextOf(folder + "/notable.json"));
  std::vector<std::string> pictures;  // the preview first, then by step
  for (const std::string& name : NamesIn(folder)) {
    const fs::path done = fs::path(folder) / name / "DONE";
    if (IsPicture(name)) pictures.push_back(name);
    if (const auto steps = StepsOf(name); steps && fs::exists(done, error))
      reader.AddCheckpoint(*steps, TextOf(done));
  }
  RunRecord run = reader.Take();
  run.name = fs::absolute(folder).lexically_normal().filename();
  if (run.name.empty()) run.name = fs::absolute(folder).lexically_normal().parent_path().filename();
  if (pictures.size() > kMaxPictures)
    pictures.erase(pictures.begin() + 1, pictures.end() - (kMaxPictures - 1));
  for (const std::string& name : pictures) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (fs::file_size(path, error) > kMaxPictureBytes || error) continue;
    run.pictures.push_back({name, TextOf(path)});
  }
  return run;
}

}  // namespace mtrun::report
