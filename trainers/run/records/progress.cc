#include "trainers/run/records/progress.h"

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "base/terminal.h"

namespace mtrun::trainers {

ProgressPacer::ProgressPacer(bool terminal, int64_t log_every, TimePoint start)
    : every_(terminal ? std::chrono::milliseconds(200) : std::chrono::seconds(5)),
      log_every_(log_every),
      next_(start + (terminal ? Duration(0) : std::chrono::seconds(1))) {}

bool ProgressPacer::Due(int64_t finished_steps, TimePoint now) {
  if (log_every_ > 0) return finished_steps % log_every_ == 0;
  if (now < next_) return false;
  next_ = now + every_;
  return true;
}

Screen ScreenOf(const EnvironmentMap& environment, bool terminal) {
  const auto dumb = environment.find("TERM");
  if (terminal && dumb != environment.end() && dumb->second == "dumb") return {};  // it cannot erase a line
  if (terminal) return {Screen::Kind::kTerminal, 0, WantsColours(environment)};
  int columns = 0;
  const auto found = environment.find(kColumnsVariable);
  if (found == environment.end() || !absl::SimpleAtoi(found->second, &columns) || columns <= 0) return {};
  return {Screen::Kind::kLauncher, columns, WantsColours(environment)};
}

ProgressLine::ProgressLine(bool quiet, const Screen& screen) : quiet_(quiet), screen_(screen) {
  if (screen_.kind != Screen::Kind::kTerminal) return;
  log::SetSink([this](const std::string& line) {
    const MutexLock lock(mu_);
    Erase();
    std::fflush(stdout);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    Redraw();
  });
}

ProgressLine::~ProgressLine() {
  if (screen_.kind == Screen::Kind::kTerminal) log::SetSink({});
  const MutexLock lock(mu_);
  Erase();
  if (screen_.kind == Screen::Kind::kLauncher && !shown_.empty()) std::fputc('\r', stdout);
  std::fflush(stdout);
}

std::optional<int> ProgressLine::columns() const {
  if (screen_.kind == Screen::Kind::kTerminal) return TerminalSize::Of(STDOUT_FILENO).columns;
  if (screen_.kind == Screen::Kind::kLauncher) return screen_.columns;
  return std::nullopt;
}

void ProgressLine::Show(const ProgressState& state) {
  if (!terminal()) return Print(ProgressText(state));
  // A terminal may wrap when its last column is written.
  Show(ProgressText(state, columns().value_or(0) - 1, screen_.colours));
}

void ProgressLine::Show(const std::string& text) {
  if (quiet_) return;
  if (!terminal()) return Print(text);
  const MutexLock lock(mu_);
  Erase();
  shown_ = ClipColumns(text, static_cast<size_t>(std::max(columns().value_or(0), 1) - 1));
  Redraw();
}

void ProgressLine::Print(const std::string& text) {
  if (quiet_ || text.empty()) return;
  const MutexLock lock(mu_);
  Erase();
  // Without another '\r', the end of the status line and a newline would look like the end of a text line.
  if (screen_.kind == Screen::Kind::kLauncher && !shown_.empty() && text.front() == '\n')
    std::fputc('\r', stdout);
  std::fputs(text.c_str(), stdout);
  if (text.back() != '\n') std::fputc('\n', stdout);
  Redraw();
}

/// Does nothing under mtrun, where each line replaces the status line.
void ProgressLine::Erase() {
  if (screen_.kind == Screen::Kind::kTerminal && !shown_.empty()) std::fputs("\r\x1b[K", stdout);
}

void ProgressLine::Redraw() {
  std::fputs(shown_.c_str(), stdout);
  if (screen_.kind == Screen::Kind::kLauncher && !shown_.empty()) std::fputc('\r', stdout);
  std::fflush(stdout);
}

}  // namespace mtrun::trainers
