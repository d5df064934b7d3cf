#include "tests/trainers/support/fake_device.h"

#include <deque>
#include <thread>
#include <utility>

#include "tests/trainers/support/stream_work.h"

namespace mtrun::trainers::testing {
namespace {

/// What stale buffers hold: nothing that a sum of the tests comes to.
constexpr double kGarbage = 1e6;

}  // namespace

class FakeDevice : public collectives::DeviceGroup {
 public:
  FakeDevice(std::shared_ptr<FakeNetwork> network, int rank)
      : network_(std::move(network)), rank_(rank), stream_([this] { RunStream(); }) {}
  ~FakeDevice() override {
    {
      const MutexLock lock(network_->mu_);
      gone_ = true;
      network_->changed_.NotifyAll();
    }
    stream_.join();
  }

  absl::Status Connect() override { return absl::OkStatus(); }
  absl::Status Error() override {
    return network_->IsBroken(rank_) ? absl::UnavailableError("the test broke it") : absl::OkStatus();
  }
  void Abort() override { network_->Abort(rank_); }
  void MarkOwnWork() override {}
  bool OwnWorkIsDone() override { return true; }

  bool Takes(const at::Tensor& tensor) const override { return tensor.is_floating_point(); }
  c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                c10d::ReduceOp::RedOpType) override {
    auto work = c10::make_intrusive<StreamWork>();
    const MutexLock lock(network_->mu_);
    queue_.push_back({tensor, work});
    network_->changed_.NotifyAll();
    return work;
  }

 private:
  struct Queued {
    at::Tensor tensor;
    c10::intrusive_ptr<StreamWork> work;
  };

  std::optional<Queued> Next() {
    const MutexLock lock(network_->mu_);
    while (queue_.empty() && !gone_) network_->changed_.Wait(network_->mu_);
    if (gone_) return std::nullopt;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }

  void RunStream() {
    for (size_t sum = 0; auto next = Next(); ++sum) {
      std::this_thread::sleep_for(network_->DelayOf(rank_));
      const auto result = network_->Sum(rank_, sum, next->tensor, gone_);
      if (result) next->tensor.copy_(*result);
      next->work->Finish();
      if (!result) return;
    }
  }

  const std::shared_ptr<FakeNetwork> network_;
  const int rank_;
  std::deque<Queued> queue_;  // this and the following: guarded by network_->mu_
  bool gone_ = false;
  std::thread stream_;
};

std::shared_ptr<collectives::DeviceGroup> FakeNetwork::DeviceOf(int rank) {
  return std::make_shared<FakeDevice>(shared_from_this(), rank);
}

void FakeNetwork::Delay(int rank, Duration delay) {
  const MutexLock lock(mu_);
  ranks_[static_cast<size_t>(rank)].delay = delay;
}

void FakeNetwork::Break(int rank) {
  const MutexLock lock(mu_);
  ranks_[static_cast<size_t>(rank)].broken = true;
}

void FakeNetwork::Abort(int rank) {
  const MutexLock lock(mu_);
  ranks_[static_cast<size_t>(rank)].aborted = true;
  changed_.NotifyAll();
}

bool FakeNetwork::IsBroken(int rank) const {
  const MutexLock lock(mu_);
  return ranks_[static_cast<size_t>(rank)].broken || ranks_[static_cast<size_t>(rank)].aborted;
}

int FakeNetwork::garbage() const {
  const MutexLock lock(mu_);
  return garbage_;
}

Duration FakeNetwork::DelayOf(int rank) const {
  const MutexLock lock(mu_);
  return ranks_[static_cast<size_t>(rank)].delay;
}

bool FakeNetwork::HasPosted(size_t sum, size_t rank) const {
  return sums_[sum][rank].has_value() || ranks_[rank].aborted;
}

std::optional<at::Tensor> FakeNetwork::Sum(int rank, size_t sum, const at::Tensor& own, const bool& gone) {
  const MutexLock lock(mu_);
  const auto self = static_cast<size_t>(rank);
  if (sums_.size() <= sum) sums_.resize(sum + 1, Posted(ranks_.size()));
  if (!ranks_[self].aborted) sums_[sum][self] = own.clone();
  changed_.NotifyAll();
  at::Tensor total = at::zeros_like(own);
  bool whole = true;
  for (size_t other = 0; other < ranks_.size(); ++other) {
    while (!HasPosted(sum, other) && !ranks_[self].aborted && !gone) changed_.Wait(mu_);
    if (gone) return std::nullopt;
    const std::optional<at::Tensor>& posted = sums_[sum][other];
    whole = whole && posted;
    total += posted && !ranks_[self].aborted ? *posted : at::full_like(own, kGarbage);
  }
  garbage_ += whole || ranks_[self].aborted ? 0 : 1;
  return total;
}

}  // namespace mtrun::trainers::testing
