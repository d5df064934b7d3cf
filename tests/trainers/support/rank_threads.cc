#include "tests/trainers/support/rank_threads.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/posix.h"

namespace mtrun::trainers::testing {
namespace {

/// An in-memory key-value store.
class MapBootstrap : public collectives::Bootstrap {
 public:
  absl::Status Set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_[std::string(key)] = std::string(value);
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || HasAll(keys); });
    if (aborted_) return absl::AbortedError("aborted");
    std::map<std::string, std::string> found;
    for (const auto& key : keys) found[key] = values_[key];
    return found;
  }
  void Abort(std::string_view) override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  bool HasAll(const std::vector<std::string>& keys) const {
    for (const auto& key : keys) {
      if (values_.count(key) == 0) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool aborted_ = false;
};

/// Runs a thread for each rank of a new generation.
void RunMembers(int world, const std::function<void(const collectives::GroupMember&,
                                                    const std::shared_ptr<collectives::Bootstrap>&)>& body) {
  const auto bootstrap = MakeThreadBootstrap();
  const std::string generation = absl::StrCat("1.", absl::Hex(RandomBits()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      collectives::GroupMember membership;
      membership.rank = rank;
      membership.world_size = world;
      membership.generation = generation;
      body(membership, bootstrap);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// Waits up to half a minute until `condition` holds; returns whether it does.
bool AwaitTrue(const std::function<bool()>& condition) {
  const TimePoint latest = MonotonicNow() + std::chrono::seconds(30);
  while (!condition()) {
    if (MonotonicNow() > latest) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

std::shared_ptr<collectives::Bootstrap> MakeThreadBootstrap() { return std::make_shared<MapBootstrap>(); }

void RunRanks(int world, const std::function<void(int, const collectives::ProcessGroup&)>& body) {
  if (world == 1) return body(0, nullptr);
  RunMembers(world, [&](const collectives::GroupMember& member, const auto& bootstrap) {
    const auto group = collectives::ConnectGroup(member, bootstrap, at::kCPU);
    ASSERT_TRUE(group.ok()) << group.status();
    body(member.rank, *group);
  });
}

void RunRanksWithDevices(
    int world, const collectives::DeviceMaker& devices,
    const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body) {
  RunMembers(world, [&](const collectives::GroupMember& member, const auto& bootstrap) {
    body(member.rank, collectives::ConnectGroup(member, bootstrap, at::kCPU, devices));
  });
}

void RunMixedRanks(const std::vector<collectives::DeviceMaker>& devices,
                   const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body) {
  RunMembers(static_cast<int>(devices.size()),
             [&](const collectives::GroupMember& member, const auto& bootstrap) {
               body(member.rank, collectives::ConnectGroup(member, bootstrap, at::Device(at::kCPU),
                                                           devices[static_cast<size_t>(member.rank)]));
             });
}

bool AwaitWaiting(const collectives::ProcessGroup& group) {
  return AwaitTrue(
      [&] { return collectives::WaitingFor(group) >= 3 * collectives::DeviceWatch::kLookEvery; });
}

bool AwaitNoWaiting(const collectives::ProcessGroup& group) {
  return AwaitTrue([&] { return collectives::WaitingFor(group) == Duration::zero(); });
}

}  // namespace mtrun::trainers::testing
