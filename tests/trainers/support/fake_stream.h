// Simulates how a device executes its commands. Its own work, recorded by the training thread, has one order;
// its sums and broadcasts, on a separate stream, have another. Such an operation starts when the own work has
// reached the point of its start, and the own work waits for it only if told to. Because the tensors are the
// CPU's, a waiting thread blocks here, where a GPU's thread would go ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/mutex.h"

namespace mtrun::trainers::testing {

/// A simulated device stream. Thread-safe.
class FakeStream {
 public:
  struct Operation {
    at::Tensor tensor;
    std::optional<int> root;         // root of a broadcast; empty: a sum
    int64_t number = 0, of_its = 0;  // counted from 0: in the stream, and among its sums or its broadcasts
    bool done = false;               // guarded by the stream's mutex
  };

  /// Calls `perform` for one operation after another, on the stream's own thread.
  explicit FakeStream(std::function<void(Operation&)> perform);
  /// Calls Close.
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;

  /// Starts an operation. As for a device, its work does not report an abort.
  c10::intrusive_ptr<c10d::Work> Start(const at::Tensor& tensor, std::optional<int> root = std::nullopt);
  void BeginWait();
  void EndWait();
  uint64_t CurrentWait() const;

  /// Makes the device's own work before its sum number `sum` hang until Release; `reached` is called there.
  void HangAt(int64_t sum, std::function<void()> reached = nullptr);
  void Release();
  /// Drops all unfinished operations and ends all waits for them. `perform` must return.
  void Close();

 private:
  class Work;
  /// An entry of the device's own order.
  struct Entry {
    enum class Kind { kStart, kAwait, kBeginWait, kEndWait };
    Kind kind;
    std::shared_ptr<Operation> operation;
  };
  void Add(Entry entry);
  void Await(const std::shared_ptr<Operation>& operation);
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Passes(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Operation> Next();
  void Run();

  const std::function<void(Operation&)> perform_;
  mutable Mutex mu_;
  Condition changed_;
  std::deque<Entry> own_ ABSL_GUARDED_BY(mu_);                           // not yet passed by the device
  std::deque<std::shared_ptr<Operation>> started_ ABSL_GUARDED_BY(mu_);  // not yet performed
  int64_t sums_ ABSL_GUARDED_BY(mu_) = 0, broadcasts_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t waits_ ABSL_GUARDED_BY(mu_) = 0, wait_ ABSL_GUARDED_BY(mu_) = 0;  // started so far; current one
  std::optional<int64_t> hang_at_ ABSL_GUARDED_BY(mu_);
  std::function<void()> hang_reached_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers::testing
