#include "launcher/core/service_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

bool ServiceLink::Connected() {
  connected_ = true;
  gives_up_.reset();
  join_deadline_.reset();
  return !std::exchange(connected_before_, true);
}

void ServiceLink::Disconnected(TimePoint now, Duration join_timeout) {
  if (connected_ && join_timeout > Duration::zero()) join_deadline_ = now + join_timeout;
  connected_ = false;
  if (!gives_up_) gives_up_ = now + patience_;
}

bool ServiceLink::Leased(TimePoint ends) {
  lease_ends_ = std::max(lease_ends_.value_or(ends), ends);
  return std::exchange(ended_, false);
}

bool ServiceLink::TakeLeaseEnd(TimePoint now) {
  if (!lease_ends_ || now < *lease_ends_) return false;
  lease_ends_.reset();
  return ended_ = true;
}

std::string ServiceLink::Describe() const {
  return absl::StrCat(connected_           ? "connected"
                      : !connected_before_ ? "never connected"
                      : join_deadline_     ? "disconnected, waits for the first generation"
                                           : "disconnected",
                      lease_ends_ ? ", with a lease"
                      : ended_    ? ", its lease has ended"
                                  : "");
}

}  // namespace mtrun::launcher
