#include "tests/trainers/support/fake_device.h"

#include <thread>
#include <utility>

#include "tests/trainers/support/fake_stream.h"

namespace mtrun::trainers::testing {
namespace {

/// The content of stale buffers, which no sum of the tests equals.
constexpr double kGarbage = 1e6;

}  // namespace

class FakeDevice : public collectives::DeviceGroup {
 public:
  FakeDevice(std::shared_ptr<FakeNetwork> network, int rank)
      : network_(std::move(network)), rank_(rank), stream_([this](FakeStream::Operation& operation) {
          std::this_thread::sleep_for(network_->DelayOf(rank_));
          network_->Perform(rank_, operation, gone_);
        }) {
    network_->SetHang(rank_, stream_);
  }
  ~FakeDevice() override {
    const MutexLock lock(network_->mu_);
    gone_ = true;
    network_->changed_.NotifyAll();
  }

  absl::Status Connect() override { return absl::OkStatus(); }
  absl::Status Error() override {
    return network_->IsBroken(rank_) ? absl::UnavailableError("the test broke it") : absl::OkStatus();
  }
  void Abort() override {
    network_->Abort(rank_);
    stream_.Release();
  }
  void BeginWait() override { stream_.BeginWait(); }
  void EndWait() override { stream_.EndWait(); }
  uint64_t CurrentWait() override { return stream_.CurrentWait(); }

  bool Takes(const at::Tensor& tensor) const override { return tensor.is_floating_point(); }
  c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                c10d::ReduceOp::RedOpType) override {
    return stream_.Start(tensor);
  }
  c10::intrusive_ptr<c10d::Work> StartBroadcast(const at::Tensor& tensor, int root) override {
    return stream_.Start(tensor, root);
  }

 private:
  const std::shared_ptr<FakeNetwork> network_;
  const int rank_;
  bool gone_ = false;  // guarded by network_->mu_
  FakeStream stream_;
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

void FakeNetwork::Vanish(int rank) {
  const MutexLock lock(mu_);
  ranks_[static_cast<size_t>(rank)].vanished = true;
  changed_.NotifyAll();
}

void FakeNetwork::HangAt(int rank, int64_t sum, std::function<void()> reached) {
  const MutexLock lock(mu_);
  ranks_[static_cast<size_t>(rank)].hangs_at = sum;
  ranks_[static_cast<size_t>(rank)].hang_reached = std::move(reached);
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

bool FakeNetwork::vanished(int rank) const {
  const MutexLock lock(mu_);
  return ranks_[static_cast<size_t>(rank)].vanished;
}

int FakeNetwork::garbage() const {
  const MutexLock lock(mu_);
  return garbage_;
}

Duration FakeNetwork::DelayOf(int rank) const {
  const MutexLock lock(mu_);
  return ranks_[static_cast<size_t>(rank)].delay;
}

void FakeNetwork::SetHang(int rank, FakeStream& stream) const {
  const MutexLock lock(mu_);
  const Rank& self = ranks_[static_cast<size_t>(rank)];
  if (self.hangs_at) stream.HangAt(*self.hangs_at, self.hang_reached);
}

bool FakeNetwork::HasPosted(size_t operation, size_t rank) const {
  return posted_[operation][rank].has_value() || (ranks_[rank].aborted && !ranks_[rank].vanished);
}

bool FakeNetwork::HasEnded(size_t rank) const { return ranks_[rank].aborted || ranks_[rank].vanished; }

void FakeNetwork::Perform(int rank, FakeStream::Operation& operation, const bool& gone) {
  const MutexLock lock(mu_);
  const auto self = static_cast<size_t>(rank), number = static_cast<size_t>(operation.number);
  if (posted_.size() <= number) posted_.resize(number + 1, Posted(ranks_.size()));
  if (!HasEnded(self)) posted_[number][self] = operation.tensor.clone();
  changed_.NotifyAll();
  at::Tensor total = at::zeros_like(operation.tensor);
  bool whole = true;
  for (size_t other = 0; other < ranks_.size(); ++other) {
    if (operation.root && static_cast<size_t>(*operation.root) != other) continue;
    while (!HasPosted(number, other) && !HasEnded(self) && !gone) changed_.Wait(mu_);
    if (gone) return;
    const std::optional<at::Tensor>& posted = posted_[number][other];
    whole = whole && posted;
    total += posted && !HasEnded(self) ? *posted : at::full_like(total, kGarbage);
  }
  garbage_ += whole || HasEnded(self) ? 0 : 1;
  operation.tensor.copy_(total);
}

}  // namespace mtrun::trainers::testing
