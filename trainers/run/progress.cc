#include "trainers/run/progress.h"

#include <unistd.h>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::trainers {

std::string ToText(const ProgressState& s) {
  std::string text = absl::StrFormat("epoch %d/%d  step %d/%d  loss %.4f  lr %.4g  %.0f images/s", s.epoch,
                                     s.epochs, s.step, s.steps, s.loss, s.learning_rate, s.images_per_second);
  if (s.step < s.steps) absl::StrAppend(&text, "  ", HumanDuration(FromSeconds(s.seconds_left)), " left");
  return text;
}

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

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(isatty(STDOUT_FILENO) == 1) {}

void ProgressLine::Show(const std::string& text) {
  if (quiet_) return;
  if (!terminal_) return Print(text);
  Erase();
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  shown_ = text.size();
}

void ProgressLine::Print(const std::string& text) {
  if (quiet_ || text.empty()) return;
  Erase();
  std::fputs(text.c_str(), stdout);
  if (text.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

void ProgressLine::Erase() {
  if (shown_ == 0) return;
  std::fputs(absl::StrCat("\r", std::string(shown_, ' '), "\r").c_str(), stdout);
  shown_ = 0;
}

}  // namespace mtrun::trainers
