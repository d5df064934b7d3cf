#include "launcher/core/drain.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

Drain::Heard Drain::Hear(int signal, TimePoint now) {
  if (heard_ && now - *heard_ < kSignalEcho && signal == heard_signal_) return Heard::kEcho;
  // A scheduler may send its own signal after it has requested the drain; this is not a repeated signal.
  const bool known = heard_ && std::exchange(signal_awaited_, false);
  if (heard_ && !known) return Heard::kAgain;
  if (!known) signal_ = signal;
  heard_ = now;
  heard_signal_ = signal;
  return known ? Heard::kKnown : Heard::kFirst;
}

bool Drain::Ask(const rendezvous::NodeLeft& why, bool all_nodes) {
  all_nodes_ |= all_nodes;
  if (heard_) return false;
  asked_ = why;
  signal_awaited_ = true;
  return true;
}

rendezvous::NodeLeft Drain::cause(const std::string& host) const {
  using Why = rendezvous::NodeLeft::Why;
  rendezvous::NodeLeft left = asked_.value_or(rendezvous::NodeLeft{.why = Why::kSignal, .signal = signal_});
  left.host = host;
  return left;
}

bool Drain::AbortsStep(const WorkerExited& exited, const WorkerSlot& slot) const {
  const int code = exited.signal != 0 ? 128 + exited.signal : exited.exit_code;
  return code != 0 && code != exit_code() && !slot.said_leaving && !slot.said_done;
}

int Drain::ExitCode(const WorkerSlots& slots, bool others_go_on) const {
  const bool goes_on = others_go_on && !all_nodes_;
  if (slots.AllMembersLeftWell() && (goes_on || slots.AllMembersDone())) return 0;
  const int status = slots.StatusOfLeavers();
  return status != 0 ? status : exit_code();
}

std::string Drain::Describe() const {
  if (!heard_) return "no signal";
  return absl::StrCat(why(), begun() ? "; drains" : "", complete_ ? "; complete" : "");
}

}  // namespace mtrun::launcher
