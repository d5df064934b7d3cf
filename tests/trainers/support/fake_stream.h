// How a device works off what it is told, as tests play it: in the order of its own work, which the training
// thread writes down, and in that of its sums and broadcasts, on a stream of theirs. One of these begins when
// the device's own order has come to where it was started, and that order waits for it only where it was told
// to. As the tensors are the CPU's, who waits for one here stands where a GPU's thread would go ahead.
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

/// Thread-safe.
class FakeStream {
 public:
  struct Operation {
    at::Tensor tensor;
    std::optional<int> root;         // of a broadcast; nothing: a sum
    int64_t number = 0, of_its = 0;  // from 0: of all of the stream, and of its sums or of its broadcasts
    bool done = false;               // guarded by the stream's mutex
  };

  /// `perform` does one after the other, on a thread of the stream's own.
  explicit FakeStream(std::function<void(Operation&)> perform);
  /// Close.
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;

  /// Nothing says that it was aborted, as for a device.
  c10::intrusive_ptr<c10d::Work> Start(const at::Tensor& tensor, std::optional<int> root = std::nullopt);
  void BeginWait();
  void EndWait();
  uint64_t CurrentWait() const;

  /// What the device has to do before its sum number `sum` never ends, until Release; `reached` is called
  /// there.
  void HangAt(int64_t sum, std::function<void()> reached = nullptr);
  void Release();
  /// What is not done yet never will be, and nobody waits for it any more. `perform` must return.
  void Close();

 private:
  class Work;
  /// Of the device's own order.
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
  std::deque<Entry> own_ ABSL_GUARDED_BY(mu_);                           // that the device has not come past
  std::deque<std::shared_ptr<Operation>> started_ ABSL_GUARDED_BY(mu_);  // that nobody performs yet
  int64_t sums_ ABSL_GUARDED_BY(mu_) = 0, broadcasts_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t waits_ ABSL_GUARDED_BY(mu_) = 0, wait_ ABSL_GUARDED_BY(mu_) = 0;  // begun so far; the current one
  std::optional<int64_t> hang_at_ ABSL_GUARDED_BY(mu_);
  std::function<void()> hang_reached_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers::testing
