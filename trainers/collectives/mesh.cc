#include "trainers/collectives/mesh.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/child_exit.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/unauthenticated_connections.h"
#include "base/unix_address.h"
#include "trainers/collectives/abort_watch.h"
#include "trainers/collectives/link.h"
#include "trainers/collectives/listener.h"
#include "trainers/collectives/shutdown_notice.h"
#include "trainers/collectives/unreached.h"

namespace mtrun::collectives {
namespace {

// Limit of connections without a Hello, in addition to those of ranks that are still expected. The same limit
// applies to connections with a Hello but without a Proof.
constexpr size_t kMaxStrangers = 256;
constexpr std::chrono::milliseconds kRedialPause{10};
constexpr size_t kMaxDialsAtOnce = 256;  // accepted per turn

// Returns true if the peer said that it left gracefully; its part of the mesh was then done.
bool LeftGracefully(int control) {
  char first = 0;
  return recv(control, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first == Encode(ShutdownNotice{})[0];
}

UniqueFd OpenProcess(int unix_socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return UniqueFd();
  // 0: another pid namespace; our own pid: ranks are threads. Then only the socket shows the peer's end.
  if (credentials.pid <= 0 || credentials.pid == getpid()) return UniqueFd();
  return WatchExit(credentials.pid);
}

class MeshBuilder {
 public:
  MeshBuilder(const GroupMember& membership, Bootstrap& bootstrap, int segment_fd, const MeshOptions& options)
      : membership_(membership),
        bootstrap_(bootstrap),
        segment_fd_(segment_fd),
        options_(options),
        unreached_(membership.unreached) {}

  absl::StatusOr<std::vector<Peer>> Build() {
    MT_RETURN_IF_ERROR(Publish());
    MT_RETURN_IF_ERROR(ReadPeers());
    AbortWatch watch(bootstrap_, Key("connected", membership_.rank));
    MT_RETURN_IF_ERROR(DialLowerRanks());
    deadline_ = MonotonicNow() + options_.timeout;
    unreached_.Begin(MonotonicNow() + options_.notice);
    while (!Complete()) MT_RETURN_IF_ERROR(RunOnce(watch));
    return std::move(peers_);
  }

 private:
  std::string Key(std::string_view what, int rank) const {
    return absl::StrCat("collectives/", membership_.generation, "/", View(what), "/", rank);
  }
  std::string KeyKey() const { return Key("key", 0); }
  bool Encrypts() const { return membership_.wire.protection == Protection::kEncrypt; }

  absl::Status Publish() {
    info_.pid = getpid();
    info_.encrypts = Encrypts();
    info_.host = HostName();
    info_.host_id = options_.host_id.empty() ? LocalHostId() : options_.host_id;
    info_.unix_name = absl::StrFormat("mtrun-%016x%016x", RandomBits(), RandomBits());
    MT_ASSIGN_OR_RETURN(unix_listener_, ListenUnix(info_.unix_name));
    MT_ASSIGN_OR_RETURN(tcp_listener_, ListenTcp(membership_.address, membership_.wire.ports, &info_.port));
    info_.addresses =
        membership_.address.empty() ? LocalAddresses() : std::vector<std::string>{membership_.address};
    if (membership_.rank == 0) MT_RETURN_IF_ERROR(bootstrap_.Set(KeyKey(), NewKey()));
    return bootstrap_.Set(Key("rank", membership_.rank), Encode(info_));
  }

  absl::Status ReadPeers() {
    std::vector<std::string> keys = {KeyKey()};
    for (int rank = 0; rank < membership_.world_size; ++rank) keys.push_back(Key("rank", rank));
    MT_ASSIGN_OR_RETURN(auto values, bootstrap_.Wait(keys));
    secret_ = {.key = values[KeyKey()], .generation = membership_.generation};
    peers_.resize(static_cast<size_t>(membership_.world_size));
    peers_[static_cast<size_t>(membership_.rank)].host_id = info_.host_id;
    for (int rank = 0; rank < membership_.world_size; ++rank) {
      if (rank == membership_.rank) continue;
      MT_ASSIGN_OR_RETURN(PeerInfo info, DecodePeerInfo(values[Key("rank", rank)]));
      Peer& peer = peers_[static_cast<size_t>(rank)];
      peer.rank = rank;
      peer.name = Describe(rank, info);
      peer.host_id = info.host_id;
      peer.local = info.host_id == info_.host_id;
      if (info.encrypts != Encrypts()) {
        AwaitThatAllHaveSeen();
        return absl::FailedPreconditionError(
            absl::StrCat(info.encrypts ? "this rank" : peer.name, " does not encrypt what it sends, but ",
                         info.encrypts ? peer.name : "this rank",
                         " does: give --encrypt_gradients to all workers or to none"));
      }
      infos_[rank] = std::move(info);
    }
    return absl::OkStatus();
  }

  // Waits on rank 0 until all ranks have seen the difference. Without mtrun the store ends with rank 0, and a
  // rank that still reads it would report a broken connection instead.
  void AwaitThatAllHaveSeen() {
    bootstrap_.Set(Key("seen", membership_.rank), "yes").IgnoreError();
    std::vector<std::string> keys;
    for (int rank = 0; rank < membership_.world_size; ++rank) keys.push_back(Key("seen", rank));
    if (membership_.rank == 0) bootstrap_.Wait(keys).IgnoreError();
  }

  absl::Status DialLowerRanks() {
    for (int rank = 0; rank < membership_.rank; ++rank) undialed_.insert(rank);
    return DialUndialed();
  }

  // Dials the lower ranks that are left. If a local rank's queue is full, it is tried again later.
  absl::Status DialUndialed() {
    for (auto rank = undialed_.begin(); rank != undialed_.end();) {
      Peer& peer = peers_[static_cast<size_t>(*rank)];
      const absl::Status status = peer.local ? DialLocal(peer) : DialRemote(peer);
      if (!status.ok() && !absl::IsAborted(status)) return CannotReach(peer, status);
      rank = status.ok() ? undialed_.erase(rank) : std::next(rank);
    }
    return absl::OkStatus();
  }

  absl::Status DialLocal(const Peer& peer) {
    MT_ASSIGN_OR_RETURN(UniqueFd fd, DialUnix(infos_[peer.rank].unix_name));
    links_.push_back(Link::Dialed(std::move(fd), secret_, membership_.rank, peer.rank, Purpose::kControl));
    links_.back().set_local(true);
    return absl::OkStatus();
  }

  // Dials all addresses at once, uses the first on which the right peer answers, and drops the others.
  absl::Status DialRemote(const Peer& peer) {
    const PeerInfo& info = infos_[peer.rank];
    for (Purpose purpose : {Purpose::kControl, Purpose::kData}) {
      MT_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, DialTcp(info.addresses, info.port));
      for (UniqueFd& fd : sockets) {
        links_.push_back(Link::Dialed(std::move(fd), secret_, membership_.rank, peer.rank, purpose));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CannotReach(const Peer& peer, const absl::Status& why) {
    if (!peer.local) unreached_.OnFailed(peer.rank, why);
    const PeerInfo& info = infos_.at(peer.rank);
    const std::string place = peer.local
                                  ? absl::StrCat("the Unix socket @", info.unix_name)
                                  : absl::StrCat(absl::StrJoin(info.addresses, ", "), " port ", info.port);
    return absl::UnavailableError(
        absl::StrCat("cannot reach ", peer.name, " at ", place, ": ", why.message()));
  }

  bool Complete() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
      return peer.rank < 0 || (peer.control.valid() && (peer.local || peer.data.valid()));
    });
  }

  std::set<int> Connected() const {
    std::set<int> ranks;
    for (const Peer& peer : peers_) {
      if (peer.control.valid() || peer.data.valid()) ranks.insert(peer.rank);
    }
    return ranks;
  }

  // Waits for events and handles them.
  absl::Status RunOnce(const AbortWatch& watch) {
    std::vector<pollfd> events = {
        {watch.event_fd(), POLLIN, 0}, {unix_listener_.get(), POLLIN, 0}, {tcp_listener_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_) {
      if (peer.control.valid()) events.push_back({peer.control.get(), POLLRDHUP, 0});
    }
    for (const Link& link : links_) events.push_back({link.fd(), link.WantedEvents(), 0});
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - MonotonicNow());
    if (left.count() <= 0) return TimedOut();
    if (!undialed_.empty()) left = std::min(left, kRedialPause);
    left = std::min(left, unreached_.DueIn(MonotonicNow()).value_or(left));
    if (poll(events.data(), events.size(), static_cast<int>(left.count()) + 1) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "wait for the group's connections");
    }
    MT_RETURN_IF_ERROR(watch.status());
    MT_RETURN_IF_ERROR(DialUndialed());
    MT_RETURN_IF_ERROR(CheckConnected(events));
    AcceptSome();
    MT_RETURN_IF_ERROR(AdvanceLinks());
    DropStrangers();
    if (unreached_.DueIn(MonotonicNow()) == std::chrono::milliseconds(0))
      unreached_.Look(links_, Connected(), MonotonicNow());
    return absl::OkStatus();
  }

  absl::Status CheckConnected(const std::vector<pollfd>& events) {
    for (const pollfd& event : events) {
      if ((event.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
      for (Peer& peer : peers_) {
        if (!peer.control.valid() || peer.control.get() != event.fd || LeftGracefully(event.fd)) continue;
        return absl::UnavailableError(absl::StrCat("lost ", peer.name, " while the group was connecting"));
      }
    }
    return absl::OkStatus();
  }

  void AcceptSome() {
    for (const bool local : {true, false}) {
      const int listener = local ? unix_listener_.get() : tcp_listener_.get();
      for (size_t count = 0; count < kMaxDialsAtOnce; ++count) {
        UniqueFd fd = AcceptOne(listener);
        if (!fd.valid()) break;
        if (local && !IsOfThisUser(fd.get())) continue;
        if (!local) TuneTcp(fd.get());
        links_.push_back(Link::Accepted(std::move(fd), secret_, membership_.rank, local));
      }
    }
  }

  // Returns the number of connections that higher ranks may still make, to all addresses of this rank.
  size_t CountExpected() const {
    size_t expected = 0;
    for (const Peer& peer : peers_) {
      if (peer.rank <= membership_.rank) continue;
      if (!peer.control.valid()) expected += peer.local ? 1 : info_.addresses.size();
      if (!peer.local && !peer.data.valid()) expected += info_.addresses.size();
    }
    return expected;
  }

  // Drops connections beyond the limits, not simply the oldest, because peers can be slow to send a Hello: a
  // client that opens very many loses its own. A Hello is not a proof: connections with one have their own
  // limit and displace no silent ones.
  void DropStrangers() {
    const size_t most = kMaxStrangers + CountExpected();
    for (const bool claims : {false, true}) {
      std::vector<std::list<Link>::iterator> strangers;
      for (auto link = links_.begin(); link != links_.end(); ++link) {
        if (!link->dialed() && (link->peer() >= 0) == claims) strangers.push_back(link);
      }
      if (strangers.size() <= most) continue;
      UnauthenticatedConnections crowd;
      for (size_t i = 0; i < strangers.size(); ++i) crowd.Add(i, PlaceOf(strangers[i]->fd()));
      while (crowd.size() > most) {
        const uint64_t dropped = crowd.First();
        crowd.Remove(dropped);
        links_.erase(strangers[dropped]);
      }
    }
  }

  absl::Status AdvanceLinks() {
    for (auto link = links_.begin(); link != links_.end();) {
      const bool claimed = link->peer() >= 0;
      absl::Status status = link->Advance(segment_fd_);
      if (status.ok() && !link->dialed() && link->peer() >= 0) status = CheckExpected(*link);
      if (status.ok() && link->state() == Link::State::kVerified) status = ConfirmFirst(*link);
      const bool done = status.ok() && link->state() == Link::State::kDone;
      if (done) Take(*link);
      if (status.ok() && !done) {
        const auto next = std::next(link);
        // Its age among the connections with a Hello counts from now.
        if (!claimed && link->peer() >= 0) links_.splice(links_.end(), links_, link);
        link = next;
        continue;
      }
      const Link ended = std::move(*link);
      link = links_.erase(link);
      if (status.ok() || !ended.dialed()) continue;
      Unconfirm(ended);
      MT_RETURN_IF_ERROR(CheckStillPossible(ended, status));
    }
    return absl::OkStatus();
  }

  absl::Status CheckExpected(const Link& link) const {
    const bool known = link.peer() > membership_.rank && link.peer() < membership_.world_size;
    if (known && peers_[static_cast<size_t>(link.peer())].local == link.local() &&
        (link.purpose() == Purpose::kControl || (link.purpose() == Purpose::kData && !link.local()))) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError("unexpected connection");
  }

  UniqueFd& SocketOf(const Link& link) {
    Peer& peer = peers_[static_cast<size_t>(link.peer())];
    return link.purpose() == Purpose::kControl ? peer.control : peer.data;
  }

  absl::Status ConfirmFirst(Link& link) {
    if (!confirmed_.emplace(std::pair(link.peer(), link.purpose()), link.fd()).second) {
      return absl::AlreadyExistsError("another address was faster");
    }
    return link.Confirm(link.local() ? segment_fd_ : -1);
  }

  // Lets another address take over if the fastest connection has ended.
  void Unconfirm(const Link& ended) {
    const auto found = confirmed_.find({ended.peer(), ended.purpose()});
    if (found != confirmed_.end() && found->second == ended.fd()) confirmed_.erase(found);
  }

  void Take(Link& link) {
    UniqueFd& socket = SocketOf(link);
    if (socket.valid()) return;
    Peer& peer = peers_[static_cast<size_t>(link.peer())];
    if (link.local()) {
      peer.segment = link.TakeSegment();
      peer.process = OpenProcess(link.fd());
    } else if (link.purpose() == Purpose::kData) {
      peer.seal = MakeCipher(link, FrameCipher::Use::kSeal);
      peer.open = MakeCipher(link, FrameCipher::Use::kOpen);
    }
    socket = link.TakeSocket();
  }

  std::unique_ptr<FrameCipher> MakeCipher(const Link& link, FrameCipher::Use use) const {
    const bool of_dialer = link.dialed() == (use == FrameCipher::Use::kSeal);
    return std::make_unique<FrameCipher>(link.DirectionKey(of_dialer), membership_.wire.protection, use);
  }

  absl::Status CheckStillPossible(const Link& ended, const absl::Status& why) {
    if (absl::IsAlreadyExists(why) || SocketOf(ended).valid()) return absl::OkStatus();
    for (const Link& link : links_) {
      if (link.dialed() && link.peer() == ended.peer() && link.purpose() == ended.purpose())
        return absl::OkStatus();
    }
    return CannotReach(peers_[static_cast<size_t>(ended.peer())], why);
  }

  absl::Status TimedOut() const {
    std::vector<std::string> missing;
    for (const Peer& peer : peers_) {
      if (peer.rank >= 0 && (!peer.control.valid() || (!peer.local && !peer.data.valid()))) {
        missing.push_back(peer.name);
      }
    }
    return absl::UnavailableError(
        absl::StrCat("no connection with ", absl::StrJoin(missing, ", "), " after ", options_.timeout.count(),
                     " s; this rank listens at ", absl::StrJoin(info_.addresses, ", "), " port ", info_.port,
                     ": is there a firewall in between, or is one of these "
                     "addresses not reachable for peers (then give the right one)?"));
  }

  const GroupMember& membership_;
  Bootstrap& bootstrap_;
  const int segment_fd_;
  const MeshOptions& options_;
  PeerInfo info_;
  std::map<int, PeerInfo> infos_;
  Link::Secret secret_;
  UniqueFd unix_listener_, tcp_listener_;
  TimePoint deadline_;
  Unreached unreached_;
  std::vector<Peer> peers_;
  std::list<Link> links_;
  std::set<int> undialed_;                            // lower ranks
  std::map<std::pair<int, Purpose>, int> confirmed_;  // the socket on which this rank sent its Proof
};

}  // namespace

absl::StatusOr<std::vector<Peer>> ConnectMesh(const GroupMember& membership, Bootstrap& bootstrap,
                                              int segment_fd, const MeshOptions& options) {
  return MeshBuilder(membership, bootstrap, segment_fd, options).Build();
}

}  // namespace mtrun::collectives
