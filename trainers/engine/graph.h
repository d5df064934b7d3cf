// Work on a device that is recorded once and replayed: a CUDA graph, or in tests something that behaves like
// one. Belongs to the thread that recorded it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Generator.h>

namespace mtrun::engine {

class Graph {
 public:
  virtual ~Graph() = default;
  /// Calls `work` once; what it asks the device to do is noted and not done. Work may not wait for the device
  /// nor copy from pageable host memory. It reads and writes the same tensors at each replay, which therefore
  /// must live as long as this; it draws random numbers from `generators` alone. Throws what `work` throws.
  virtual void Record(const std::function<void()>& work, const std::vector<at::Generator>& generators) = 0;
  /// Does it, in the device's stream. Random numbers are those of the generators' seeds now.
  virtual void Replay() = 0;
};

using GraphFactory = std::function<std::unique_ptr<Graph>()>;

}  // namespace mtrun::engine
