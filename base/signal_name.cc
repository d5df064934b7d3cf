#include "base/signal_name.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace mtrun {

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace mtrun
