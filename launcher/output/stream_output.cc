#include "launcher/output/stream_output.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"
#include "base/terminal.h"

namespace mtrun::launcher {
namespace {

bool IsBlank(const std::string& text) {
  return WithoutEscapes(text).find_first_not_of(" \t\r\b") == std::string::npos;
}

}  // namespace

StreamWrites StreamOutput::OnBytes(std::string_view bytes, TimePoint now) {
  StreamWrites writes;
  if (!rules_.thins_updates) writes.file = bytes;
  if (rules_.to_console && rules_.raw)
    writes.console.push_back({ConsoleWrite::Kind::kRaw, std::string(bytes)});
  if (!WantsLines()) return writes;
  AddPieces(splitter_.Feed(bytes), now, &writes);
  if (const auto standing = splitter_.Standing()) AddUpdate(*standing, &writes);
  AwaitUnfinished(now);
  return writes;
}

StreamWrites StreamOutput::OnEnd(TimePoint now) {
  StreamWrites writes;
  const std::optional<std::string> last_state = splitter_.Standing();
  if (ShowsUnfinished() && last_state && !IsBlank(*last_state)) AddWholeLine(*last_state, 0, now, &writes);
  AddPieces(splitter_.Flush(), now, &writes);
  AddUpdate("", &writes);
  return writes;
}

std::optional<TimePoint> StreamOutput::Due(TimePoint quiet_since) const {
  if (unfinished_since_) return std::max(line_at_ + kShowUnfinishedEvery, *unfinished_since_ + kLineMayEnd);
  if (!HasPrompt()) return std::nullopt;
  return quiet_since + kPromptAfter;
}

StreamWrites StreamOutput::OnTime(TimePoint now, TimePoint quiet_since) {
  StreamWrites writes;
  const std::optional<TimePoint> due = Due(quiet_since);
  if (!due || now < *due) return writes;
  if (unfinished_since_) {
    AddUnfinished(now, &writes);
  } else {
    AddPrompt(&writes);
  }
  return writes;
}

void StreamOutput::AwaitUnfinished(TimePoint now) {
  if (!ShowsUnfinished() || unfinished_since_) return;
  const std::string text = Unfinished();
  if (text != appeared_ && !IsBlank(text)) unfinished_since_ = now;
}

void StreamOutput::AddUnfinished(TimePoint now, StreamWrites* writes) {
  unfinished_since_.reset();
  const std::string text = Unfinished();
  if (text == appeared_ || IsBlank(text)) return;
  in_parts_ = grows_ && !appeared_.empty();
  AddConsoleLine(WithoutEscapes(std::string_view(text).substr(in_parts_ ? appeared_.size() : 0)), 0, writes);
  appeared_ = text;
  grows_ = true;
  line_at_ = now;
}

void StreamOutput::AddPrompt(StreamWrites* writes) {
  const std::string text = absl::StrCat(rules_.prefix, View(splitter_.pending()));
  const size_t shown = std::exchange(shown_, text.size());
  if (rewrites_) {
    AddUpdate(std::string(splitter_.pending()), writes);
  } else {
    writes->console.push_back({ConsoleWrite::Kind::kBegin, text, shown});
  }
}

bool StreamOutput::WantsLines() const {
  return ShowsLines() || rules_.thins_updates || rules_.which == 1 || !rules_.filters.empty();
}

bool StreamOutput::Matches(const std::string& line) const {
  return std::any_of(rules_.filters.begin(), rules_.filters.end(),
                     [&](const std::string& text) { return line.find(text) != std::string::npos; });
}

bool StreamOutput::HasPrompt() const {
  if (!ShowsLines() || !rules_.on_terminal || splitter_.pending().empty() || splitter_.Standing())
    return false;
  return shown_ < rules_.prefix.size() + splitter_.pending().size();
}

void StreamOutput::AddPieces(std::vector<Piece> pieces, TimePoint now, StreamWrites* writes) {
  if (pieces.empty()) return;
  if (rules_.thins_updates) writes->file = TextWithFewUpdates(pieces, now);
  const bool was_update = std::exchange(rewrites_, pieces.back().kind == Piece::Kind::kUpdate);
  size_t shown = std::exchange(shown_, 0);
  if (was_update) shown = 0;  // as the status line, which a line replaces
  for (const Piece& piece : pieces) {
    const bool update = piece.kind == Piece::Kind::kUpdate;
    AddUpdate(update ? piece.text : "", writes);  // a line replaces its update
    if (!update) AddLine(piece.text, shown, now, writes);
    shown = 0;
    grows_ = false;
  }
  if (rules_.which == 1) writes->tail = std::move(pieces);
}

void StreamOutput::AddLine(const std::string& text, size_t shown, TimePoint now, StreamWrites* writes) {
  if (Matches(text)) absl::StrAppend(&writes->filtered, rules_.prefix, text, "\n");
  if (ShowsLines()) AddWholeLine(text, shown, now, writes);
}

void StreamOutput::AddWholeLine(const std::string& text, size_t shown, TimePoint now, StreamWrites* writes) {
  const bool has_appeared = grows_ && !in_parts_ && text == appeared_;
  if (!has_appeared) AddConsoleLine(text, shown, writes);
  appeared_.clear();
  unfinished_since_.reset();
  line_at_ = now;
}

void StreamOutput::AddConsoleLine(const std::string& text, size_t shown, StreamWrites* writes) const {
  const bool wraps = rules_.breaks_lines && shown == 0;
  std::vector<ConsoleWrite>& console = writes->console;
  if (console.empty() || console.back().kind != ConsoleWrite::Kind::kLines || console.back().wraps != wraps)
    console.push_back({ConsoleWrite::Kind::kLines, "", shown, wraps});
  absl::StrAppend(&console.back().text, rules_.prefix, text, "\n");
}

void StreamOutput::AddUpdate(const std::string& text, StreamWrites* writes) {
  if (!ShowsLines() || !rules_.on_terminal || (text.empty() && !update_stands_)) return;
  update_stands_ = !text.empty();
  writes->console.push_back(
      {ConsoleWrite::Kind::kUpdate, text.empty() ? "" : absl::StrCat(rules_.prefix, text)});
}

std::string StreamOutput::TextWithFewUpdates(const std::vector<Piece>& pieces, TimePoint now) {
  std::string text;
  for (const Piece& piece : pieces) {
    if (piece.kind == Piece::Kind::kUpdate) {
      if (piece.text.empty() || now - update_kept_ < kKeepUpdateEvery) continue;
      update_kept_ = now;
      absl::StrAppend(&text, WithoutEscapes(piece.text), "\n");
    } else {
      absl::StrAppend(&text, piece.text, piece.kind == Piece::Kind::kLine ? "\n" : "");
    }
  }
  return text;
}

}  // namespace mtrun::launcher
