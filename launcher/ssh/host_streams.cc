#include "launcher/ssh/host_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

HostStreams::HostStreams(std::string prefix, std::shared_ptr<Console> console, FailureBoxes boxes)
    : prefix_(std::move(prefix)), console_(std::move(console)), boxes_(std::move(boxes)) {}

void HostStreams::Show(int which, std::string_view bytes) {
  if (bytes.empty()) return;
  if (prefix_.empty()) {
    console_->Raw(which, std::string(bytes));
  } else {
    Show(which, lines_[which].Feed(bytes));
  }
}

void HostStreams::Finish() {
  for (const int which : {0, 1}) Show(which, lines_[which].Flush());
  ShowLines(1, boxes_.Flush());
}

void HostStreams::Show(int which, const std::vector<Piece>& pieces) {
  std::vector<std::string> lines;
  for (const Piece& piece : pieces) {
    // A terminal shows it in its place; the next one follows soon.
    if (piece.kind == Piece::Kind::kUpdate && console_->IsTerminal(which)) {
      console_->Update(which, absl::StrCat(prefix_, piece.text));
    } else if (which == 0) {
      lines.push_back(piece.text);
    } else {
      for (std::string& line : boxes_.Feed(piece.text)) lines.push_back(std::move(line));
    }
  }
  ShowLines(which, lines);
}

void HostStreams::ShowLines(int which, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, prefix_, line, "\n");
  if (!text.empty()) console_->Lines(which, std::move(text));
}

}  // namespace mtrun::launcher
