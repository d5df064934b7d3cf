#include "launcher/output/error_tail.h"

namespace mtrun::launcher {
namespace {

constexpr char kTraceback[] = "Traceback (most recent call last):";  // perhaps behind a prefix

}  // namespace

void ErrorTail::Add(const std::vector<Piece>& pieces, int64_t now_ns) {
  // Updates in between may push it a little further back than needed; never nearer.
  const size_t first = pieces.size() > 4 * TailBuffer::kLines ? pieces.size() - 4 * TailBuffer::kLines : 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind == Piece::Kind::kUpdate) continue;
    if (i >= first) lines_.Add(pieces[i].text);
    if (pieces[i].text.find(kTraceback) != std::string::npos) traceback_at_ = now_ns;
  }
}

}  // namespace mtrun::launcher
