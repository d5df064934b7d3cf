#include "launcher/workers/record_ladder.h"

namespace mtrun::launcher {

RecordLadder::Rung RecordLadder::At(TimePoint now) {
  if (last_ == Rung::kReport) return last_;
  if (!deadline_) deadline_ = now + patience_;
  if (now < *deadline_) return Rung::kWait;
  last_ = static_cast<Rung>(static_cast<int>(last_) + 1);
  deadline_ = now + patience_;
  if (last_ == Rung::kReport) deadline_.reset();
  return last_;
}

}  // namespace mtrun::launcher
