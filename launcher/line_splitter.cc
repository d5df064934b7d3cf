#include "launcher/line_splitter.h"

#include <utility>

namespace mtrun::launcher {

std::vector<Piece> LineSplitter::Feed(std::string_view bytes) {
  std::vector<Piece> pieces;
  const auto emit = [&](Piece::Kind kind, size_t text_size) {
    std::string text = pending_.substr(0, text_size);
    pieces.push_back({kind, std::move(text), std::exchange(pending_, {})});
  };
  for (const char byte : bytes) {
    // Only the byte after a '\r' tells whether it ended a line or an update.
    const bool after_return = !pending_.empty() && pending_.back() == '\r';
    if (after_return && byte != '\n') emit(Piece::Kind::kUpdate, pending_.size() - 1);
    pending_ += byte;
    if (byte == '\n') {
      emit(Piece::Kind::kLine, pending_.size() - (after_return ? 2 : 1));
    } else if (pending_.size() >= bound_ && byte != '\r') {
      emit(Piece::Kind::kPart, pending_.size());
    }
  }
  return pieces;
}

std::vector<Piece> LineSplitter::Flush() {
  if (pending_.empty()) return {};
  const bool update = pending_.back() == '\r';
  std::string text = pending_.substr(0, pending_.size() - (update ? 1 : 0));
  return {Piece{update ? Piece::Kind::kUpdate : Piece::Kind::kPart, std::move(text),
                std::exchange(pending_, {})}};
}

void TailBuffer::Add(std::string_view line) {
  lines_.emplace_back(line.substr(0, kLineBytes));
  if (lines_.size() > kLines) lines_.pop_front();
}

std::string TailBuffer::Text() const {
  std::string text;
  for (const std::string& line : lines_) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

}  // namespace mtrun::launcher
