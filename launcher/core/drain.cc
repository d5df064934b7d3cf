#include "launcher/core/drain.h"

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"

namespace mtrun::launcher {

Drain::Heard Drain::Hear(int signal, TimePoint now) {
  if (heard_) return now - *heard_ < kSignalEcho && signal == signal_ ? Heard::kEcho : Heard::kAgain;
  heard_ = now;
  signal_ = signal;
  return Heard::kFirst;
}

std::string Drain::why() const { return absl::StrCat("received ", SignalName(signal_)); }

bool Drain::AbortsStep(const WorkerExited& exited, const WorkerSlot& slot) const {
  const int code = exited.signal != 0 ? 128 + exited.signal : exited.exit_code;
  return code != 0 && code != exit_code() && !slot.said_leaving && !slot.said_done;
}

std::string Drain::Describe() const {
  if (!heard_) return "no signal";
  return absl::StrCat(why(), begun() ? "; drains" : "", complete_ ? "; complete" : "");
}

}  // namespace mtrun::launcher
