#include "trainers/collectives/transport.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/futex.h"

namespace mtrun::collectives {
namespace {

HostMap HostsOf(const std::vector<Peer>& peers) {
  std::vector<std::string> ids;
  for (const Peer& peer : peers) ids.push_back(peer.host_id);
  return MapHosts(ids);
}

// About the cost of falling asleep and waking up; longer spinning loses more if another rank needs the core.
constexpr std::chrono::microseconds kSpin{10};
constexpr int kLooksPerClock = 32;

void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int UsableCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

/// One remote peer's part of a phase.
struct Transport::Pending {
  int rank;
  int fd;
  size_t expected;  // bytes of its payload
  std::optional<FrameSender> sender = std::nullopt;
  std::optional<FrameReceiver> receiver = std::nullopt;

  bool sends() const { return sender && !sender->done(); }
  bool receives() const { return receiver && !receiver->done(); }
};

Transport::Transport(int rank, uint64_t generation, std::unique_ptr<OwnSegment> segment,
                     std::vector<Peer>& peers, Failure& failure, Duration reason_patience)
    : rank_(rank),
      generation_(generation),
      segment_(std::move(segment)),
      peers_(peers),
      failure_(failure),
      reason_patience_(reason_patience),
      hosts_(HostsOf(peers)),
      segments_(peers.size()),
      left_(std::make_unique<std::atomic<bool>[]>(peers.size())) {}

absl::Status Transport::Open() {
  int on_this_host = 1;
  for (Peer& peer : peers_) {
    if (peer.rank < 0) continue;
    (peer.local ? has_local_ : has_remote_) = true;
    if (!peer.local) continue;
    ++on_this_host;
    auto opened =
        PeerSegment::Open(std::move(peer.segment), generation_, peer.rank, world(), segment_->slot_bytes());
    if (!opened.ok()) return Annotate(opened.status(), peer.name);
    segments_[static_cast<size_t>(peer.rank)] = *std::move(opened);
  }
  // If there are more ranks than cores, a spinning rank keeps the rank that it waits for from running.
  if (on_this_host <= UsableCores()) spin_ = kSpin;
  return absl::OkStatus();
}

absl::Status Transport::Exchange(const Phase& phase) {
  if (const auto hook = transport_hooks.before_phase.load()) hook(phase_ + 1);
  if (failure_.failed()) return failure_.status();
  ++phase_;
  call_ = phase.call;
  if (has_local_) Announce(phase);
  if (has_remote_) MT_RETURN_IF_ERROR(ExchangeFrames(phase));
  for (const Peer& peer : peers_) {
    if (peer.rank >= 0 && peer.local) MT_RETURN_IF_ERROR(AwaitLocal(peer.rank));
  }
  // All ranks have read the bytes that the previous phase exposed.
  if (exposed_ != nullptr && exposed_ != phase.area) exposed_->exposed = false;
  exposed_ = phase.area;
  return absl::OkStatus();
}

absl::StatusOr<const char*> Transport::View(int rank, size_t bytes) {
  PeerSegment& segment = *segments_[static_cast<size_t>(rank)];
  return Annotate(segment.View(segment.header().notices[phase_ % 2], bytes),
                  peers_[static_cast<size_t>(rank)].name);
}

uint64_t Transport::StrideOf(int rank) const {
  return segments_[static_cast<size_t>(rank)]->header().notices[phase_ % 2].stride;
}

bool Transport::InArea(int rank) const {
  return segments_[static_cast<size_t>(rank)]->header().notices[phase_ % 2].area_offset != 0;
}

void Transport::Announce(const Phase& phase) {
  SegmentHeader& header = segment_->header();
  Notice& notice = header.notices[phase_ % 2];
  notice = Notice{.generation = generation_, .phase = phase_, .call = phase.call, .stride = phase.stride};
  if (phase.area != nullptr) {
    phase.area->exposed = true;
    notice.area_offset = phase.area->offset;
    notice.area_bytes = phase.area->memory->bytes();
    notice.begin =
        static_cast<uint64_t>(static_cast<const char*>(phase.exposed) - phase.area->memory->data());
  }
  // Sequentially consistent with SleepUntilReached: either we see its flag or it sees our phase.
  header.phase.store(phase_);
  for (const std::unique_ptr<PeerSegment>& peer : segments_) {
    if (peer != nullptr && peer->header().sleeping.load() != 0) return FutexWake(header.phase);
  }
}

const std::atomic<uint32_t>& Transport::PhaseWord(int rank) const {
  return segments_[static_cast<size_t>(rank)]->header().phase;
}

// Phases wrap around; two ranks are never more than one phase apart.
bool Transport::Reached(int rank) const { return static_cast<int32_t>(PhaseWord(rank).load() - phase_) >= 0; }

absl::Status Transport::AwaitLocal(int rank) {
  const TimePoint give_up = MonotonicNow() + spin_;
  bool reached = Reached(rank);
  while (!reached && !failure_.failed() && MonotonicNow() < give_up) {
    for (int look = 0; look < kLooksPerClock && !reached; ++look) {
      Relax();
      reached = Reached(rank);
    }
  }
  if (!reached) MT_RETURN_IF_ERROR(SleepUntilReached(rank));
  const Notice& notice = segments_[static_cast<size_t>(rank)]->header().notices[phase_ % 2];
  if (notice.generation != generation_ || notice.phase != phase_) {
    return absl::InternalError(absl::StrCat(peers_[static_cast<size_t>(rank)].name, " is in phase ",
                                            notice.phase, ", but this rank is in phase ", phase_));
  }
  return notice.call == call_ ? absl::OkStatus() : OtherCall(rank, notice.call);
}

// No timeout is needed: a peer's end, an abort and a notice lead to Wake(), repeated until no call sleeps.
absl::Status Transport::SleepUntilReached(int rank) {
  absl::Status status;
  sleeping_on_.store(rank);
  segment_->header().sleeping.store(1);
  while (true) {
    // Read before the phase: a peer that has left entered its last phase before that.
    const bool left = left_[static_cast<size_t>(rank)].load();
    const uint32_t seen = PhaseWord(rank).load();
    if (Reached(rank)) break;
    if (failure_.failed()) {
      status = failure_.status();
      break;
    }
    if (left) {
      status = Lost(rank);
      break;
    }
    FutexWait(PhaseWord(rank), seen);
  }
  segment_->header().sleeping.store(0);
  sleeping_on_.store(-1);
  return status;
}

absl::Status Transport::Lost(int rank) const {
  if (failure_.failed()) return failure_.status();
  const std::string& name = peers_[static_cast<size_t>(rank)].name;
  if (left_[static_cast<size_t>(rank)].load()) {
    return absl::UnavailableError(absl::StrCat(name, " has left the group before ", Describe(call_)));
  }
  return absl::UnavailableError(
      absl::StrCat("lost ", name, ": its connection closed during ", Describe(call_)));
}

// Waits for the reason of a closed data connection, which the monitor gets from the control connection.
absl::Status Transport::HungUp(int rank) const {
  const TimePoint give_up = MonotonicNow() + reason_patience_;
  while (!left_[static_cast<size_t>(rank)].load() && MonotonicNow() < give_up) {
    pollfd failed = {failure_.event_fd(), POLLIN, 0};
    if (poll(&failed, 1, 1) > 0) break;
  }
  return Lost(rank);
}

absl::Status Transport::OtherCall(int rank, const Call& theirs) const {
  return absl::InvalidArgumentError(
      absl::StrCat("ranks make different calls: rank ", rank_, " is in ", Describe(call_), ", ",
                   peers_[static_cast<size_t>(rank)].name, " in ", Describe(theirs),
                   "; all ranks must make the same calls in the same order"));
}

std::vector<Transport::Pending> Transport::FramesOf(const Phase& phase) {
  std::vector<Pending> pending;
  for (Peer& peer : peers_) {
    if (peer.rank < 0 || peer.local) continue;
    const auto rank = static_cast<size_t>(peer.rank);
    const Pieces<ConstBytes> payload = phase.send.empty() ? Pieces<ConstBytes>() : phase.send[rank];
    const Pieces<MutableBytes> room = phase.receive.empty() ? Pieces<MutableBytes>() : phase.receive[rank];
    const FrameHead head = {
        .generation = generation_, .phase = phase_, .call = phase.call, .bytes = BytesIn(payload)};
    Pending part = {.rank = peer.rank, .fd = peer.data.get(), .expected = BytesIn(room)};
    if (phase.empty_frames || head.bytes > 0) part.sender.emplace(part.fd, *peer.seal, head, payload);
    if (phase.empty_frames || part.expected > 0) part.receiver.emplace(part.fd, *peer.open, room);
    if (part.sender || part.receiver) pending.push_back(std::move(part));
  }
  return pending;
}

absl::Status Transport::ExchangeFrames(const Phase& phase) {
  std::vector<Pending> pending = FramesOf(phase);
  const auto done = [](const Pending& part) { return !part.sends() && !part.receives(); };
  while (true) {
    bool moved = false;
    for (Pending& part : pending) MT_RETURN_IF_ERROR(Advance(part, &moved));
    if (std::all_of(pending.begin(), pending.end(), done)) return absl::OkStatus();
    if (!moved) MT_RETURN_IF_ERROR(WaitForSockets(pending));
    if (failure_.failed()) return failure_.status();
  }
}

absl::Status Transport::WaitForSockets(const std::vector<Pending>& pending) {
  std::vector<pollfd> events = {{failure_.event_fd(), POLLIN, 0}};
  for (const Pending& part : pending) {
    const int wanted = (part.sends() ? POLLOUT : 0) | (part.receives() ? POLLIN : 0);
    if (wanted != 0) events.push_back({part.fd, static_cast<short>(wanted), 0});
  }
  if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, "wait for frames of the peers");
  }
  return absl::OkStatus();
}

absl::Status Transport::Advance(Pending& pending, bool* moved) {
  const auto look = [&](Progress progress) -> absl::Status {
    *moved = *moved || progress != Progress::kNone;
    if (progress == Progress::kHungUp) return HungUp(pending.rank);
    if (progress == Progress::kHead) return CheckHead(pending);
    if (progress != Progress::kForged) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat("a frame from ",
                                                   peers_[static_cast<size_t>(pending.rank)].name,
                                                   " was altered in transit, during ", Describe(call_)));
  };
  if (pending.sends()) MT_RETURN_IF_ERROR(look(pending.sender->Advance()));
  if (pending.receives()) MT_RETURN_IF_ERROR(look(pending.receiver->Advance()));
  return absl::OkStatus();
}

// Rejects a wrong head. The head is not authenticated yet, so it is used for nothing else.
absl::Status Transport::CheckHead(const Pending& pending) const {
  const FrameHead& in = pending.receiver->head();
  if (in.magic == FrameHead::kMagic && in.generation == generation_) {
    if (!(in.call == call_)) return OtherCall(pending.rank, in.call);  // its phase can then differ too
    if (in.phase == phase_ && in.bytes == pending.expected) return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(peers_[static_cast<size_t>(pending.rank)].name,
                                          " sent a frame of phase ", in.phase, " with ", in.bytes,
                                          " bytes, expected phase ", phase_, " with ", pending.expected));
}

bool Transport::Sleeps(int rank) const {
  const int on = sleeping_on_.load();
  return rank < 0 ? on >= 0 : on == rank;
}

void Transport::Wake() const {
  if (const int on = sleeping_on_.load(); on >= 0) FutexWake(PhaseWord(on));
}

void Transport::MarkLeft(int rank) { left_[static_cast<size_t>(rank)].store(true); }

int Transport::FirstLeft() const {
  for (int rank = 0; rank < world(); ++rank) {
    if (left_[static_cast<size_t>(rank)].load()) return rank;
  }
  return -1;
}

}  // namespace mtrun::collectives
