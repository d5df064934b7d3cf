#include "launcher/output/error_tail.h"

namespace mtrun::launcher {
namespace {

constexpr int64_t kOfOneTracebackNs = 1'000'000'000;
constexpr char kTraceback[] = "Traceback (most recent call last):";  // a prefix may precede it

}  // namespace

void ErrorTail::Add(const std::vector<Piece>& pieces, int64_t now_ns) {
  if (!pieces.empty()) last_ns_ = now_ns;
  // If there are updates among them, more lines than needed are examined, never fewer.
  const size_t first = pieces.size() > 4 * TailBuffer::kLines ? pieces.size() - 4 * TailBuffer::kLines : 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind == Piece::Kind::kUpdate) continue;
    if (i >= first) lines_.Add(pieces[i].text);
    if (pieces[i].text.find(kTraceback) != std::string::npos) traceback_at_ = now_ns;
  }
}

std::optional<ErrorTail::Traceback> ErrorTail::traceback() const {
  if (!traceback_at_) return std::nullopt;
  return Traceback{*traceback_at_, last_ns_ - *traceback_at_ <= kOfOneTracebackNs};
}

}  // namespace mtrun::launcher
