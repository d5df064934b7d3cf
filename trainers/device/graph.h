// Work on a device, captured once and replayed by one thread: a CUDA graph, or a simulated one in tests.
#pragma once

#include <functional>
#include <memory>

namespace mtrun::trainers {

class Graph {
 public:
  virtual ~Graph() = default;
  /// Calls `work` once and captures its device operations, which do not run. `work` must not wait for the
  /// device or copy from pageable host memory. Each replay reads and writes the same tensors, which must live
  /// as long as this, and draws random numbers only from streams among them. Throws the exceptions of `work`.
  virtual void Capture(const std::function<void()>& work) = 0;
  /// Runs the captured work in the device's stream.
  virtual void Replay() = 0;
};

using GraphFactory = std::function<std::unique_ptr<Graph>()>;

}  // namespace mtrun::trainers
