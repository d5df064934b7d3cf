#include "tests/trainers/support/fake_stream.h"

#include <utility>

namespace mtrun::trainers::testing {

class FakeStream::Work : public c10d::Work {
 public:
  Work(FakeStream& stream, std::shared_ptr<Operation> operation)
      : stream_(stream), operation_(std::move(operation)) {}
  bool wait(std::chrono::milliseconds) override {
    stream_.Await(operation_);
    return true;
  }

 private:
  FakeStream& stream_;
  const std::shared_ptr<Operation> operation_;
};

FakeStream::FakeStream(std::function<void(Operation&)> perform)
    : perform_(std::move(perform)), thread_([this] { Run(); }) {}

FakeStream::~FakeStream() {
  Close();
  thread_.join();
}

c10::intrusive_ptr<c10d::Work> FakeStream::Start(const at::Tensor& tensor, std::optional<int> root) {
  auto operation = std::make_shared<Operation>(Operation{.tensor = tensor, .root = root});
  const MutexLock lock(mu_);
  operation->number = sums_ + broadcasts_;
  operation->of_its = root ? broadcasts_++ : sums_++;
  own_.push_back({Entry::Kind::kStart, operation});
  Advance();
  return c10::make_intrusive<Work>(*this, std::move(operation));
}

void FakeStream::Add(Entry entry) {
  const MutexLock lock(mu_);
  own_.push_back(std::move(entry));
  Advance();
}

void FakeStream::BeginWait() { Add({Entry::Kind::kBeginWait, nullptr}); }

void FakeStream::EndWait() { Add({Entry::Kind::kEndWait, nullptr}); }

uint64_t FakeStream::CurrentWait() const {
  const MutexLock lock(mu_);
  return wait_;
}

void FakeStream::Await(const std::shared_ptr<Operation>& operation) {
  Add({Entry::Kind::kAwait, operation});
  const MutexLock lock(mu_);
  while (!operation->done && !closed_) changed_.Wait(mu_);
}

void FakeStream::HangAt(int64_t sum, std::function<void()> reached) {
  const MutexLock lock(mu_);
  hang_at_ = sum;
  hang_reached_ = std::move(reached);
}

void FakeStream::Release() {
  const MutexLock lock(mu_);
  hang_at_.reset();
  Advance();
}

void FakeStream::Close() {
  const MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

void FakeStream::Advance() {
  while (!own_.empty() && Passes(own_.front())) own_.pop_front();
  changed_.NotifyAll();
}

bool FakeStream::Passes(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kStart:
      if (hang_at_ && !entry.operation->root && *hang_at_ == entry.operation->of_its) {
        if (hang_reached_) std::exchange(hang_reached_, nullptr)();
        return false;
      }
      started_.push_back(entry.operation);
      return true;
    case Entry::Kind::kAwait:
      return entry.operation->done;
    case Entry::Kind::kBeginWait:
      wait_ = ++waits_;
      return true;
    case Entry::Kind::kEndWait:
      wait_ = 0;
      return true;
  }
  return true;
}

std::shared_ptr<FakeStream::Operation> FakeStream::Next() {
  const MutexLock lock(mu_);
  while (started_.empty() && !closed_) changed_.Wait(mu_);
  if (closed_) return nullptr;
  std::shared_ptr<Operation> next = std::move(started_.front());
  started_.pop_front();
  return next;
}

void FakeStream::Run() {
  while (const std::shared_ptr<Operation> next = Next()) {
    perform_(*next);
    const MutexLock lock(mu_);
    next->done = true;
    Advance();
  }
}

}  // namespace mtrun::trainers::testing
