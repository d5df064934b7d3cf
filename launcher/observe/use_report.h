// Reports the resource use of this node's workers to clients that watch. It is measured on a separate thread,
// so that the agent's loop, on whose thread all methods run, is not delayed.
#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <functional>
#include <memory>

#include "base/gpus.h"
#include "launcher/observe/worker_steps.h"

namespace mtrun::launcher {

class UseReport {
 public:
  using Done = std::function<void(const rendezvous::NodeUse&)>;

  explicit UseReport(asio::io_context& io) : io_(io) {}
  ~UseReport() { pool_.join(); }

  WorkerSteps& steps() { return steps_; }
  /// Measures the workers in `use`, whose rank, local rank and pid are set, and calls `done` on the loop
  /// later. During a measurement further requests are ignored.
  void Measure(rendezvous::NodeUse use, TimePoint now, Done done);

 private:
  asio::io_context& io_;
  WorkerSteps steps_;
  bool busy_ = false;
  // Pool thread only.
  bool looked_for_gpus_ = false;
  std::unique_ptr<Gpus> gpus_;

  asio::thread_pool pool_{1};
};

}  // namespace mtrun::launcher
