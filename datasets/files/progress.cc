#include "datasets/files/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"

namespace mtrun::datasets {
namespace {

constexpr std::chrono::milliseconds kOnTerminal{200};
constexpr std::chrono::seconds kInLog{10};

}  // namespace

std::string WithCommas(int64_t number) {
  std::string text = absl::StrCat(number);
  const int first = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(text.size()) - 3; at > first; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string ProgressText(int64_t done, int64_t total, double seconds, int64_t before) {
  const auto made = static_cast<double>(done - before);
  const double left = made > 0 ? seconds * static_cast<double>(total - done) / made : 0;
  const std::string rest = left >= 120 ? absl::StrFormat("  %.0f min left", left / 60)
                           : left >= 1 ? absl::StrFormat("  %.0f s left", left)
                                       : "";
  return absl::StrFormat("%s of %s images  %3d %%  %s images/s%s", WithCommas(done), WithCommas(total),
                         total > 0 ? done * 100 / total : 0,
                         WithCommas(seconds > 0 ? static_cast<int64_t>(made / seconds) : 0), rest);
}

Progress::Progress(int64_t total, const std::atomic<int64_t>& done)
    : total_(total), before_(done), done_(done), thread_([this] { Run(); }) {}

Progress::~Progress() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stop_signal_.NotifyAll();
  thread_.join();
}

void Progress::Run() {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const TimePoint start = MonotonicNow();
  const auto text = [&] { return ProgressText(done_, total_, ToSeconds(MonotonicNow() - start), before_); };
  const MutexLock lock(mutex_);
  TimePoint next = start;
  while (!stop_) {
    if (MonotonicNow() >= next) next = MonotonicNow() + (terminal ? Duration(kOnTerminal) : Duration(kInLog));
    if (stop_signal_.WaitUntil(mutex_, next)) continue;
    if (terminal)
      absl::FPrintF(stderr, "\r\033[K%s", text());
    else
      log::Info(text());
  }
  if (terminal) absl::FPrintF(stderr, "\r\033[K");
}

}  // namespace mtrun::datasets
