// Watches the peers of a group on a thread of its own and reports their end to blocked calls.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/posix.h"
#include "trainers/collectives/failure.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/transport.h"

namespace mtrun::collectives {

/// Turns a peer's end (pidfd, or the end of its control connection) into the group's failure, and reads its
/// shutdown notice. If the group fails for any reason, notifies the peers and wakes sleeping calls until none
/// sleeps. Construction and destruction on one thread.
class Monitor {
 public:
  /// All arguments must outlive this.
  Monitor(std::vector<Peer>& peers, Transport& transport, Failure& failure);
  /// Sends the peers a shutdown notice and ends the thread.
  ~Monitor();

 private:
  void Run();
  void OnEvent(uint64_t tag);
  void OnPeer(size_t rank, bool process_ended);
  bool ReadNotice(size_t rank);
  void OnLeft(size_t rank);
  void TellPeers();
  void WakeSleepers();

  std::vector<Peer>& peers_;
  Transport& transport_;
  Failure& failure_;
  const UniqueFd stop_, epoll_;

  // Used only by the thread.
  bool stopping_ = false;
  std::vector<std::string> inbox_;
  std::vector<bool> gone_;

  std::thread thread_;
};

}  // namespace mtrun::collectives
