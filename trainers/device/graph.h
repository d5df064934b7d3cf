// Work on a device that is captured once and replayed: a CUDA graph, or in tests something that behaves like
// one. Belongs to the thread that captured it.
#pragma once

#include <functional>
#include <memory>

namespace mtrun::trainers {

class Graph {
 public:
  virtual ~Graph() = default;
  /// Calls `work` once; what it asks the device to do is captured and does not run. Work may not wait for the
  /// device nor copy from pageable host memory. It reads and writes the same tensors at each replay, which
  /// therefore must live as long as this, and draws random numbers only from streams among them. Throws what
  /// `work` throws.
  virtual void Capture(const std::function<void()>& work) = 0;
  /// Runs it, in the device's stream.
  virtual void Replay() = 0;
};

using GraphFactory = std::function<std::unique_ptr<Graph>()>;

}  // namespace mtrun::trainers
