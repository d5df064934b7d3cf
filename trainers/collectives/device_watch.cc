#include "trainers/collectives/device_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

/// Waits until a descriptor is readable or the next check is due.
void PollAny(pollfd* watched, nfds_t count) {
  while (poll(watched, count, static_cast<int>(DeviceWatch::kLookEvery.count())) < 0 && errno == EINTR)
    continue;
}

void Raise(int fd) {
  const uint64_t one = 1;
  MT_CHECK(write(fd, &one, sizeof(one)) == sizeof(one)) << "eventfd";
}

/// True after a connect of this process was abandoned; never reset, because its thread's end is not observed.
std::atomic<bool> any_connect_given_up = false;

/// A connect in progress; it outlives its waiter. Unless abandoned it releases the device afterwards:
/// otherwise it could destroy the device after the objects that the device needs.
struct Connecting {
  explicit Connecting(std::shared_ptr<Device> d) : device(std::move(d)), ended(eventfd(0, EFD_CLOEXEC)) {}

  void Run() {
    const absl::Status done = device->Connect();
    bool given_up = false;
    {
      const MutexLock lock(mu);
      status = done;
      given_up = abandoned;
      if (!given_up) device.reset();
    }
    Raise(ended.get());
    if (given_up) device->Abort();
  }

  std::shared_ptr<Device> device;  // used only by its thread
  const UniqueFd ended;
  Mutex mu;
  std::optional<absl::Status> status ABSL_GUARDED_BY(mu);
  bool abandoned ABSL_GUARDED_BY(mu) = false;
};

/// Aborts the group if rank `left`, which this rank needs, has left in order; -1: none has.
void BreakIfLeft(Group& group, int left, const char* what) {
  if (left >= 0) group.Abort(absl::StrCat("rank ", left, " left while rank ", group.rank(), what));
}

/// Returns the connect's status, or nothing if the group failed first and the connect was abandoned.
std::optional<absl::Status> Await(Connecting& connecting, Group& group) {
  pollfd watched[] = {{connecting.ended.get(), POLLIN, 0}, {group.failure_fd(), POLLIN, 0}};
  while (watched[0].revents == 0 && watched[1].revents == 0) {
    PollAny(watched, 2);
    if (watched[0].revents == 0) BreakIfLeft(group, group.first_left(), " connects its device");
  }
  const MutexLock lock(connecting.mu);
  if (!connecting.status) {
    connecting.abandoned = true;
    any_connect_given_up = true;
  }
  return connecting.status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceWatch>> DeviceWatch::Connect(std::shared_ptr<Device> device,
                                                                  Group& group) {
  const auto connecting = std::make_shared<Connecting>(device);
  std::thread([connecting] { connecting->Run(); }).detach();
  const std::optional<absl::Status> connected = Await(*connecting, group);
  if (connected && !connected->ok()) {
    group.Abort(absl::StrCat("rank ", group.rank(), " cannot connect its device: ", connected->message()));
  }
  if (!group.status().ok()) {
    if (connected) device->Abort();
    return group.status();
  }
  return std::unique_ptr<DeviceWatch>(new DeviceWatch(std::move(device), group));
}

DeviceWatch::DeviceWatch(std::shared_ptr<Device> device, Group& group)
    : device_(std::move(device)), group_(group), stop_(eventfd(0, EFD_CLOEXEC)), thread_([this] { Run(); }) {}

DeviceWatch::~DeviceWatch() {
  Raise(stop_.get());
  thread_.join();
}

absl::Status DeviceWatch::status() const {
  MT_RETURN_IF_ERROR(group_.status());
  return device_->Error();
}

void DeviceWatch::Run() {
  pollfd watched[] = {{group_.failure_fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    PollAny(watched, 2);
    if ((watched[1].revents & POLLIN) != 0) return;
    if ((watched[0].revents & POLLIN) != 0) {
      NoteWait(0);  // not waiting for others any more: if the worker stays blocked, it hangs
      return device_->Abort();
    }
    LookAtDevice();
  }
}

void DeviceWatch::LookAtDevice() {
  if (const absl::Status error = device_->Error(); !error.ok()) {
    group_.Abort(absl::StrCat("the device of rank ", group_.rank(), ": ", error.message()));
    return;  // the next check finds the group's failure
  }
  // Read before the wait: a rank could complete the wait and leave between the two reads.
  const int left = group_.first_left();
  const uint64_t wait = device_->CurrentWait();
  if (wait != 0) BreakIfLeft(group_, left, " waits for its sums");
  NoteWait(wait);
}

void DeviceWatch::NoteWait(uint64_t wait) {
  const MutexLock lock(mu_);
  if (wait != wait_) waits_since_ = MonotonicNow();
  wait_ = wait;
}

Duration DeviceWatch::waiting_for() const {
  const MutexLock lock(mu_);
  return wait_ != 0 ? MonotonicNow() - waits_since_ : Duration::zero();
}

void ExitBesideConnects(int status) {
  if (!any_connect_given_up) return;
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace mtrun::collectives
