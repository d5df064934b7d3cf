// A simulated device group with the dangers of a real one. Sums end asynchronously in a stream of the
// device's own, and peers wait for a member that dies. A member that aborts still posts, so its neighbours'
// sums end with garbage and without an error (ncclCommAbort, NCCL 2.28). The order of a device's work shows
// whether it waits for others or hangs (fake_stream.h). The CPU group takes all but floating-point tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "tests/trainers/support/fake_stream.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers::testing {

/// The network between the devices of one generation, which keep it alive. Thread-safe.
class FakeNetwork : public std::enable_shared_from_this<FakeNetwork> {
 public:
  static std::shared_ptr<FakeNetwork> Make(int world) {
    return std::shared_ptr<FakeNetwork>(new FakeNetwork(world));
  }

  /// Returns a member's device; may be called once per rank.
  std::shared_ptr<collectives::DeviceGroup> DeviceOf(int rank);
  /// Delays each sum of `rank` by `delay` from now on.
  void Delay(int rank, Duration delay);
  /// Makes the device report an error; it works on otherwise.
  void Break(int rank);
  /// Simulates a dead process: it posts no more and does not abort; its thread, still running, gets garbage.
  void Vanish(int rank);
  bool vanished(int rank) const;
  /// Makes the device of `rank` hang in its own work before its sum number `sum` (from 0); `reached` is
  /// called there. To be called before DeviceOf.
  void HangAt(int rank, int64_t sum, std::function<void()> reached);
  /// Returns how many sums were wrong for a rank that had not aborted.
  int garbage() const;

 private:
  friend class FakeDevice;
  explicit FakeNetwork(int world) : ranks_(static_cast<size_t>(world)) {}
  struct Rank {
    bool aborted = false, broken = false, vanished = false;
    std::optional<int64_t> hangs_at;
    std::function<void()> hang_reached;
    Duration delay = {};
  };
  /// The tensors that the ranks have posted so far for one sum or broadcast.
  using Posted = std::vector<std::optional<at::Tensor>>;

  /// Performs the part of `rank`; the result is wrong if a rank has aborted. Ends early if `gone`.
  void Perform(int rank, FakeStream::Operation& operation, const bool& gone);
  bool HasPosted(size_t operation, size_t rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasEnded(size_t rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Abort(int rank);
  bool IsBroken(int rank) const;
  Duration DelayOf(int rank) const;
  void SetHang(int rank, FakeStream& stream) const;

  mutable Mutex mu_;
  Condition changed_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mu_);
  std::vector<Posted> posted_ ABSL_GUARDED_BY(mu_);
  int garbage_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace mtrun::trainers::testing
