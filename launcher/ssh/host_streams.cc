#include "launcher/ssh/host_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {
namespace {

StreamOutput OutputOf(int which, const std::string& prefix, const Console& console) {
  return StreamOutput(
      {.which = which, .prefix = prefix, .raw = prefix.empty(), .on_terminal = console.IsTerminal(which)});
}

}  // namespace

HostStreams::HostStreams(std::string prefix, std::shared_ptr<Console> console, FailureBoxes boxes,
                         size_t host)
    : prefix_(std::move(prefix)),
      console_(std::move(console)),
      boxes_(std::move(boxes)),
      owner_(1 + 2 * static_cast<int64_t>(host)),
      outputs_{OutputOf(0, prefix_, *console_), OutputOf(1, prefix_, *console_)} {}

void HostStreams::Show(int which, std::string_view bytes, TimePoint now) {
  if (bytes.empty()) return;
  quiet_since_ = now;
  Perform(which, outputs_[which].OnBytes(bytes, now));
}

void HostStreams::Finish(TimePoint now) {
  for (const int which : {0, 1}) Perform(which, outputs_[which].OnEnd(now));
  for (const std::string& line : boxes_.Flush()) console_->Lines(1, absl::StrCat(prefix_, line, "\n"));
}

std::optional<TimePoint> HostStreams::Due() const {
  return Earlier(outputs_[0].Due(quiet_since_), outputs_[1].Due(quiet_since_));
}

void HostStreams::OnTime(TimePoint now) {
  for (const int which : {0, 1}) Perform(which, outputs_[which].OnTime(now, quiet_since_));
}

void HostStreams::Perform(int which, const StreamWrites& writes) {
  for (const ConsoleWrite& write : writes.console) {
    const bool may_be_box = which == 1 && write.kind == ConsoleWrite::Kind::kLines && write.shown == 0;
    if (may_be_box) {
      ShowErrorLines(write.text);
    } else {
      console_->Write(which, write, owner_ + which);
    }
  }
}

void HostStreams::ShowErrorLines(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    for (const std::string& line : boxes_.Feed(std::string(lines.substr(0, end).substr(prefix_.size()))))
      absl::StrAppend(&text, prefix_, line, "\n");
    lines.remove_prefix(end + 1);
  }
  if (!text.empty()) console_->Lines(1, std::move(text));
}

}  // namespace mtrun::launcher
