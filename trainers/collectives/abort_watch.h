// Reports an abort of the bootstrap through a descriptor that can be polled beside sockets.
#pragma once

#include <sys/eventfd.h>

#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Makes event_fd() readable if the bootstrap is aborted: it waits for a key that only this object sets.
class AbortWatch {
 public:
  AbortWatch(Bootstrap& bootstrap, std::string key) : bootstrap_(bootstrap), key_(std::move(key)) {
    thread_ = std::thread([this] {
      auto values = bootstrap_.Wait({key_});
      if (values.ok()) return;
      const MutexLock lock(mu_);
      status_ = values.status();
      eventfd_write(event_.get(), 1);
    });
  }
  ~AbortWatch() {
    // If this fails, the store is gone and the wait ends anyway.
    bootstrap_.Set(key_, "1").IgnoreError();
    thread_.join();
  }
  int event_fd() const { return event_.get(); }
  absl::Status status() const {
    const MutexLock lock(mu_);
    return status_;
  }

 private:
  Bootstrap& bootstrap_;
  const std::string key_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace mtrun::collectives
