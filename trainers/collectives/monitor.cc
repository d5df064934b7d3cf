#include "trainers/collectives/monitor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/shutdown_notice.h"

namespace mtrun::collectives {
namespace {

constexpr std::chrono::milliseconds kWakeAgain{1};

// Tags of epoll events: one for stop, one for failure, then two for each rank.
constexpr uint64_t kStop = 0;
constexpr uint64_t kFailed = 1;
uint64_t ControlTag(size_t rank) { return 2 + 2 * rank; }
uint64_t ProcessTag(size_t rank) { return 3 + 2 * rank; }

void Watch(int epoll, int fd, uint64_t tag) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = tag;
  MT_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) << "epoll_ctl " << errno;
}

}  // namespace

Monitor::Monitor(std::vector<Peer>& peers, Transport& transport, Failure& failure)
    : peers_(peers),
      transport_(transport),
      failure_(failure),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      inbox_(peers.size()),
      gone_(peers.size()) {
  MT_CHECK(stop_.valid() && epoll_.valid()) << "no descriptors for the group's monitor: too many open files";
  Watch(epoll_.get(), stop_.get(), kStop);
  Watch(epoll_.get(), failure_.event_fd(), kFailed);
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].control.valid()) Watch(epoll_.get(), peers_[rank].control.get(), ControlTag(rank));
    if (peers_[rank].process.valid()) Watch(epoll_.get(), peers_[rank].process.get(), ProcessTag(rank));
  }
  thread_ = std::thread([this] { Run(); });
}

Monitor::~Monitor() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Monitor::Run() {
  while (!failure_.failed() && !stopping_) {
    epoll_event events[16];
    const int count = epoll_wait(epoll_.get(), events, 16, -1);
    MT_CHECK(count >= 0 || errno == EINTR) << "epoll_wait " << errno;
    for (int i = 0; i < count; ++i) OnEvent(events[i].data.u64);
  }
  TellPeers();
  if (failure_.failed()) WakeSleepers();
}

void Monitor::OnEvent(uint64_t tag) {
  if (tag == kStop) {
    stopping_ = true;
  } else if (tag != kFailed) {
    OnPeer((tag - 2) / 2, tag % 2 == 1);
  }
}

void Monitor::OnPeer(size_t rank, bool process_ended) {
  if (gone_[rank] || failure_.failed()) return;
  const bool hung_up = ReadNotice(rank);
  if (const auto notice = DecodeShutdownNotice(inbox_[rank])) {
    if (notice->graceful) return OnLeft(rank);
    failure_.Set(absl::AbortedError(absl::StrCat(peers_[rank].name, " gave up: ", notice->why)));
  } else if (process_ended) {
    failure_.Set(absl::UnavailableError(absl::StrCat("lost ", peers_[rank].name, ": its process ended")));
  } else if (hung_up) {
    failure_.Set(absl::UnavailableError(absl::StrCat(
        "lost ", peers_[rank].name, ": connection closed unexpectedly (killed, crashed or cut off)")));
  }
}

// Returns true if the connection is closed. Never reads more than a notice.
bool Monitor::ReadNotice(size_t rank) {
  while (inbox_[rank].size() < kMaxNoticeBytes) {
    char buffer[512];
    const ssize_t count = recv(peers_[rank].control.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count > 0) {
      inbox_[rank].append(buffer, static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return true;
    } else if (errno == EAGAIN) {
      return false;
    }
  }
  return false;
}

void Monitor::OnLeft(size_t rank) {
  gone_[rank] = true;
  for (const UniqueFd* fd : {&peers_[rank].control, &peers_[rank].process}) {
    if (fd->valid()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd->get(), nullptr);
  }
  transport_.MarkLeft(static_cast<int>(rank));
  // A sleeper that needs more of this peer sees the mark and ends. One wake-up is not enough, because it
  // could come just before the sleeper falls asleep.
  while (transport_.Sleeps(static_cast<int>(rank)) && !failure_.failed()) {
    transport_.Wake();
    std::this_thread::sleep_for(kWakeAgain);
  }
}

// Notifies the peers with best effort: a frozen peer does not read, a dead one cannot.
void Monitor::TellPeers() {
  const absl::Status status = failure_.status();
  const std::string bytes =
      Encode(ShutdownNotice{.graceful = status.ok(), .why = std::string(status.message())});
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].control.valid() || gone_[rank]) continue;
    send(peers_[rank].control.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Monitor::WakeSleepers() {
  while (transport_.Sleeps()) {
    transport_.Wake();
    std::this_thread::sleep_for(kWakeAgain);
  }
}

}  // namespace mtrun::collectives
