#include "tests/trainers/support/shared_device.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "tests/trainers/support/fake_stream.h"
#include "trainers/collectives/all_reduce.h"

namespace mtrun::trainers::testing {
namespace {

using collectives::GroupMember;

/// The content of stale buffers, which no sum of the tests equals.
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

/// A device over a CPU group of its own. Its results are valid only if no member has aborted.
class SharedDevice : public collectives::DeviceGroup {
 public:
  SharedDevice(GroupMember member, std::shared_ptr<collectives::Bootstrap> bootstrap,
               const DeviceFault& fault)
      : member_(std::move(member)),
        bootstrap_(std::move(bootstrap)),
        fault_(fault),
        stream_([this](FakeStream::Operation& operation) { Perform(operation); }) {
    member_.generation += ".device";
    if (fault_.kind == DeviceFault::Kind::kHang && fault_.rank == member_.rank) {
      stream_.HangAt(fault_.sum, SayFired);
    }
  }
  ~SharedDevice() override { Abort(); }

  absl::Status Connect() override {
    if (Fires(DeviceFault::Kind::kKill, 0)) raise(SIGKILL);
    MT_ASSIGN_OR_RETURN(auto group, collectives::ConnectGroup(member_, bootstrap_, at::kCPU));
    const MutexLock lock(mu_);
    group_ = std::move(group);
    return absl::OkStatus();
  }
  absl::Status Error() override {
    return failed_ ? absl::UnavailableError("the test broke it") : absl::OkStatus();
  }
  void Abort() override {
    collectives::ProcessGroup group;
    {
      const MutexLock lock(mu_);
      group = group_;
    }
    if (group) collectives::AbortGroup(group, "the device was aborted");
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
  static void SayFired() { std::fputs("device fault fired\n", stderr); }
  bool Fires(DeviceFault::Kind kind, int64_t sum) const {
    if (fault_.kind != kind || fault_.sum != sum || fault_.rank != member_.rank) return false;
    SayFired();
    return true;
  }

  void Perform(FakeStream::Operation& operation) {
    const bool is_sum = !operation.root.has_value();
    if (is_sum && operation.of_its > 0 && Fires(DeviceFault::Kind::kError, operation.of_its)) failed_ = true;
    collectives::ProcessGroup group;
    {
      const MutexLock lock(mu_);
      group = group_;
    }
    try {
      if (is_sum) {
        collectives::AllReduce(group, operation.tensor);
      } else {
        collectives::Broadcast(group, operation.tensor, *operation.root);
      }
    } catch (const std::exception&) {
      operation.tensor.fill_(kSharedGarbage);
    }
  }

  GroupMember member_;
  const std::shared_ptr<collectives::Bootstrap> bootstrap_;
  const DeviceFault fault_;
  std::atomic<bool> failed_ = false;
  Mutex mu_;
  collectives::ProcessGroup group_ ABSL_GUARDED_BY(mu_);
  FakeStream stream_;
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
