#include "launcher/core/service_link.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

bool ServiceLink::Connected() {
  connected_ = true;
  fence_deadline_.reset();
  return std::exchange(join_deadline_, std::nullopt).has_value();
}

void ServiceLink::Disconnected(TimePoint now) {
  connected_ = false;
  if (fence_timeout_ > Duration::zero() && !fence_deadline_) fence_deadline_ = now + fence_timeout_;
}

bool ServiceLink::TakeFence(TimePoint now) {
  if (!fence_deadline_ || now < *fence_deadline_) return false;
  fence_deadline_.reset();
  return true;
}

std::string ServiceLink::Describe() const {
  return absl::StrCat(connected_       ? "connected"
                      : join_deadline_ ? "never connected"
                                       : "disconnected",
                      fence_deadline_ ? ", fence ahead" : "");
}

}  // namespace mtrun::launcher
