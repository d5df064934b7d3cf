// A device group of memory, with what makes a real one dangerous: sums end by themselves in a stream of the
// device's own, a member that dies is waited for, and one that aborts still posts, so that its neighbours'
// sums end with garbage and nobody says so (ncclCommAbort, NCCL 2.28). Whose sums wait for others, or for a
// device that hangs, is told in the order of its work (fake_stream.h). It takes floating-point tensors; the
// CPU group does the others.
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

/// What the devices of one generation are connected by; they keep it. Thread-safe.
class FakeNetwork : public std::enable_shared_from_this<FakeNetwork> {
 public:
  static std::shared_ptr<FakeNetwork> Make(int world) {
    return std::shared_ptr<FakeNetwork>(new FakeNetwork(world));
  }

  /// A member's device, once.
  std::shared_ptr<collectives::DeviceGroup> DeviceOf(int rank);
  /// Each sum of `rank` begins so much later from now on.
  void Delay(int rank, Duration delay);
  /// Its device reports an error, and goes on otherwise.
  void Break(int rank);
  /// Its process is dead: it posts no more, and does not abort. Its own thread, which a test cannot end
  /// there, gets garbage.
  void Vanish(int rank);
  bool vanished(int rank) const;
  /// Before its sum number `sum` from 0 it has own work that never ends; `reached` is called there. Before
  /// DeviceOf.
  void HangAt(int rank, int64_t sum, std::function<void()> reached);
  /// How often a sum has come to something else for a rank that had not aborted.
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
  /// Of each sum or broadcast what the ranks have posted so far.
  using Posted = std::vector<std::optional<at::Tensor>>;

  /// `rank` takes part; what was aborted comes to something else. Ends early if `gone`.
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
