#include "launcher/ssh/host_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

HostStreams::HostStreams(std::string prefix, std::shared_ptr<Console> console)
    : prefix_(std::move(prefix)), console_(std::move(console)) {}

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
}

void HostStreams::Show(int which, const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) {
    // A terminal shows it in its place; the next one follows soon.
    if (piece.kind == Piece::Kind::kUpdate && console_->IsTerminal(which)) {
      console_->Update(which, absl::StrCat(prefix_, piece.text));
    } else {
      absl::StrAppend(&text, prefix_, piece.text, "\n");
    }
  }
  if (!text.empty()) console_->Lines(which, std::move(text));
}

}  // namespace mtrun::launcher
