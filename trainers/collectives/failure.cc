#include "trainers/collectives/failure.h"

#include <sys/eventfd.h>

#include <utility>

#include "base/status_macros.h"

namespace mtrun::collectives {

Failure::Failure() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MT_CHECK(event_.valid()) << "no descriptor for an eventfd: too many open files";
}

bool Failure::Set(absl::Status status) {
  MT_CHECK(!status.ok());
  {
    const MutexLock lock(mu_);
    if (!status_.ok()) return false;
    status_ = std::move(status);
  }
  failed_.store(true);
  eventfd_write(event_.get(), 1);
  return true;
}

absl::Status Failure::status() const {
  const MutexLock lock(mu_);
  return status_;
}

}  // namespace mtrun::collectives
