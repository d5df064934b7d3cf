// Reports an abort of the bootstrap through a descriptor that can be polled beside sockets.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "trainers/collectives/bootstrap.h"
#include "trainers/collectives/failure.h"

namespace mtrun::collectives {

/// Makes event_fd() readable if the bootstrap is aborted: it waits for a key that only this object sets.
class AbortWatch {
 public:
  AbortWatch(Bootstrap& bootstrap, std::string key) : bootstrap_(bootstrap), key_(std::move(key)) {
    thread_ = std::thread([this] {
      const auto values = bootstrap_.Wait({key_});
      if (!values.ok()) aborted_.Set(values.status());
    });
  }
  ~AbortWatch() {
    // If this fails, the store is gone and the wait ends anyway.
    bootstrap_.Set(key_, "1").IgnoreError();
    thread_.join();
  }
  int event_fd() const { return aborted_.event_fd(); }
  absl::Status status() const { return aborted_.status(); }

 private:
  Bootstrap& bootstrap_;
  const std::string key_;
  Failure aborted_;
  std::thread thread_;
};

}  // namespace mtrun::collectives
