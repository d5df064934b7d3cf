#include "tests/trainers/support/shared_device.h"

#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "tests/trainers/support/stream_work.h"
#include "trainers/collectives/all_reduce.h"

namespace mtrun::trainers::testing {
namespace {

using collectives::GroupMember;

/// What stale buffers hold: nothing that a sum of the tests comes to.
constexpr double kSharedGarbage = 1e6;

struct DeviceFault {
  enum class Kind { kNone, kKill, kError, kHang };
  Kind kind = Kind::kNone;
  int rank = -1;
  int64_t sum = 0;
};

DeviceFault::Kind KindOf(absl::string_view name) {
  return name == "kill"    ? DeviceFault::Kind::kKill
         : name == "error" ? DeviceFault::Kind::kError
         : name == "hang"  ? DeviceFault::Kind::kHang
                           : DeviceFault::Kind::kNone;
}

absl::StatusOr<DeviceFault> ParseDeviceFault(absl::string_view text) {
  DeviceFault fault;
  for (absl::string_view field : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    bool good = false;
    if (absl::ConsumePrefix(&field, "rank=")) good = absl::SimpleAtoi(field, &fault.rank);
    if (absl::ConsumePrefix(&field, "sum=")) good = absl::SimpleAtoi(field, &fault.sum);
    if (absl::ConsumePrefix(&field, "do=")) {
      fault.kind = KindOf(field);
      good = fault.kind != DeviceFault::Kind::kNone;
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat("MTRUN_DEVICE_FAULT: \"", field, "\""));
  }
  return fault;
}

/// Of another group, as abort() leaves them: whole only where nobody is aborted.
class SharedDevice : public collectives::DeviceGroup {
 public:
  SharedDevice(GroupMember member, std::shared_ptr<collectives::Bootstrap> bootstrap,
               const DeviceFault& fault)
      : member_(std::move(member)), bootstrap_(std::move(bootstrap)), fault_(fault) {
    member_.generation += ".device";
    stream_ = std::thread([this] { RunStream(); });
  }
  ~SharedDevice() override {
    Abort();
    Change([this] { gone_ = true; });
    stream_.join();
  }

  absl::Status Connect() override {
    if (Fires(DeviceFault::Kind::kKill, 0)) raise(SIGKILL);
    MT_ASSIGN_OR_RETURN(auto group, collectives::ConnectCpuGroup(member_, bootstrap_));
    Change([&] { group_ = std::move(group); });
    return absl::OkStatus();
  }
  absl::Status Error() override {
    const MutexLock lock(mu_);
    return failed_ ? absl::UnavailableError("the test broke it") : absl::OkStatus();
  }
  void Abort() override {
    collectives::ProcessGroup group;
    Change([&] {
      aborted_ = true;
      group = group_;
    });
    if (group) collectives::AbortGroup(group, "the device was aborted");
  }
  void MarkOwnWork() override {}
  bool OwnWorkIsDone() override {
    const MutexLock lock(mu_);
    return !hangs_;
  }

  bool Takes(const at::Tensor& tensor) const override { return tensor.is_floating_point(); }
  c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                c10d::ReduceOp::RedOpType) override {
    auto work = c10::make_intrusive<StreamWork>();
    Change([&] { queue_.push_back({tensor, work}); });
    return work;
  }

 private:
  struct Queued {
    at::Tensor tensor;
    c10::intrusive_ptr<StreamWork> work;
  };

  template <typename Body>
  void Change(const Body& body) {
    const MutexLock lock(mu_);
    body();
    changed_.NotifyAll();
  }
  void AwaitAbort() {
    const MutexLock lock(mu_);
    while (!aborted_ && !gone_) changed_.Wait(mu_);
  }

  bool Fires(DeviceFault::Kind kind, int64_t sum) const {
    if (fault_.kind != kind || fault_.sum != sum || fault_.rank != member_.rank) return false;
    std::fputs("device fault fired\n", stderr);
    return true;
  }

  std::optional<Queued> Next() {
    const MutexLock lock(mu_);
    while (queue_.empty() && !gone_) changed_.Wait(mu_);
    if (queue_.empty()) return std::nullopt;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }

  void RunStream() {
    for (int64_t sum = 0; auto next = Next(); ++sum) {
      if (sum > 0 && Fires(DeviceFault::Kind::kError, sum)) Change([this] { failed_ = true; });
      if (sum > 0 && Fires(DeviceFault::Kind::kHang, sum)) {
        Change([this] { hangs_ = true; });
        AwaitAbort();
      }
      Sum(next->tensor);
      next->work->Finish();
    }
  }
  void Sum(at::Tensor& tensor) {
    try {
      collectives::AllReduce(group_, tensor);
    } catch (const std::exception&) {
      tensor.fill_(kSharedGarbage);
    }
  }

  GroupMember member_;
  const std::shared_ptr<collectives::Bootstrap> bootstrap_;
  const DeviceFault fault_;
  Mutex mu_;
  Condition changed_;
  collectives::ProcessGroup group_;  // this and the following: guarded by mu_; constant once connected
  std::deque<Queued> queue_;
  bool aborted_ = false, failed_ = false, hangs_ = false, gone_ = false;
  std::thread stream_;
};

}  // namespace

absl::StatusOr<collectives::DeviceMaker> SharedDevices(const char* fault) {
  MT_ASSIGN_OR_RETURN(const DeviceFault parsed, ParseDeviceFault(fault == nullptr ? "" : fault));
  return collectives::DeviceMaker(
      [parsed](const GroupMember& member, std::shared_ptr<collectives::Bootstrap> bootstrap) {
        const bool first = absl::StartsWith(member.generation, "1.");
        return std::make_shared<SharedDevice>(member, std::move(bootstrap), first ? parsed : DeviceFault{});
      });
}

}  // namespace mtrun::trainers::testing
