#include "launcher/output/line_splitter.h"

#include <utility>

namespace mtrun::launcher {

std::vector<Piece> LineSplitter::Feed(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Piece> pieces;
  std::string_view rest = pending_;
  const auto cut = [&](Piece::Kind kind, size_t text_size, size_t size) {
    pieces.push_back({kind, std::string(rest.substr(0, text_size)), size});
    rest.remove_prefix(size);
  };
  while (!rest.empty()) {
    const std::string_view window = rest.substr(0, bound_);
    const size_t newline = window.find('\n');
    const size_t back = window.substr(0, newline).find('\r');
    if (back != std::string_view::npos) {
      // The byte after a '\r' decides whether it ended a line or an update.
      if (back + 1 == rest.size()) break;
      if (rest[back + 1] == '\n') {
        cut(Piece::Kind::kLine, back, back + 2);
      } else {
        cut(Piece::Kind::kUpdate, back, back + 1);
      }
    } else if (newline != std::string_view::npos) {
      cut(Piece::Kind::kLine, newline, newline + 1);
    } else if (window.size() == bound_) {
      cut(Piece::Kind::kPart, bound_, bound_);
    } else {
      break;
    }
  }
  pending_.erase(0, pending_.size() - rest.size());
  return pieces;
}

std::optional<std::string> LineSplitter::Standing() const {
  if (pending_.empty() || pending_.back() != '\r') return std::nullopt;
  return pending_.substr(0, pending_.size() - 1);
}

std::vector<Piece> LineSplitter::Flush() {
  if (pending_.empty()) return {};
  const size_t size = pending_.size();
  const bool update = pending_.back() == '\r';
  std::string text = std::exchange(pending_, {});
  if (update) text.pop_back();
  return {Piece{update ? Piece::Kind::kUpdate : Piece::Kind::kPart, std::move(text), size}};
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
