#include "launcher/core/wait_news.h"

namespace mtrun::launcher {

log::Level WaitNews::OnReason(const std::string& why, bool first, TimePoint now) {
  if (first) return log::Level::kInfo;
  why_ = why;
  if (!due_) due_ = now + kPatience;
  return log::Level::kDebug;
}

std::optional<std::string> WaitNews::Take(TimePoint now) {
  if (!due_ || now < *due_) return std::nullopt;
  due_.reset();
  return why_;
}

}  // namespace mtrun::launcher
