#include "launcher/cli/signals.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mtrun::launcher {
namespace {

int SignalOf(absl::string_view text) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number)) return number > 0 && number < SIGRTMIN ? number : 0;
  std::string name = absl::AsciiStrToUpper(text);
  name = std::string(absl::StripPrefix(name, "SIG"));
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* known = sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  return 0;
}

}  // namespace

SignalPlan DefaultSignals() { return {{SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGTERM}, {}, true}; }

std::vector<int> ParseSignals(std::string_view std_text, std::vector<std::string>* unknown) {
  std::vector<int> signals;
  const absl::string_view text(std_text.data(), std_text.size());
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (item.empty()) continue;
    const int signal = SignalOf(item);
    if (signal == 0 || signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD) {
      unknown->emplace_back(item);
    } else {
      signals.push_back(signal);
    }
  }
  std::sort(signals.begin(), signals.end());
  signals.erase(std::unique(signals.begin(), signals.end()), signals.end());
  return signals;
}

}  // namespace mtrun::launcher
