#include "tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/folder_names.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "tensorboard/record.h"

namespace mtrun::tensorboard {
namespace {

/// The prefix by which TensorBoard recognizes its files; ten digits of seconds follow.
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr size_t kDigits = 10;
constexpr int kMaxTries = 100;

/// Returns the seconds in a file name; nothing if it is not an event file.
std::optional<int64_t> SecondsOf(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), kDigits);
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(View(digits), &seconds)) return std::nullopt;
  return seconds;
}

double WallClock() { return static_cast<double>(WallClockNs()) * 1e-9; }

}  // namespace

std::string NextFileName(int64_t seconds, std::string_view host, int64_t pid,
                         const std::vector<std::string>& existing) {
  for (const std::string& name : existing) {
    if (const auto other = SecondsOf(name)) seconds = std::max(seconds, *other + 1);
  }
  return absl::StrFormat("%s%010d.%s.%d", View(kPrefix), seconds, View(host), pid);
}

absl::StatusOr<EventFile> EventFile::Create(const std::string& folder, int64_t step) {
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  UniqueFd file;
  std::string path;
  for (int tries = 0; !file.valid(); ++tries) {
    MT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(folder));
    path =
        absl::StrCat(folder, "/", NextFileName(WallClockNs() / 1'000'000'000, HostName(), getpid(), names));
    file = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!file.valid() && (errno != EEXIST || tries == kMaxTries))
      return ErrnoStatus(errno, absl::StrCat("create ", path));
  }
  EventFile events(path, std::move(file));
  events.Add(WallClock(), 0, FileVersion{});
  // Needed in the first file too, because TensorBoard takes every start but the first for a restart.
  events.Add(WallClock(), step, Start{});
  const absl::Status written = events.Flush();
  if (!written.ok()) unlink(path.c_str());
  MT_RETURN_IF_ERROR(written);
  return events;
}

EventFile::~EventFile() {
  if (file_.valid()) Flush().IgnoreError();
}

void EventFile::Add(double wall_time, int64_t step, const Content& content) {
  AppendFrame(pending_, EncodeEvent(wall_time, step, content));
}

absl::Status EventFile::Flush() { return Annotate(WriteFront(file_.get(), pending_), path_); }

}  // namespace mtrun::tensorboard
