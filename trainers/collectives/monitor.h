// Watches the peers of a group on a thread of its own and turns what happens to them into events for blocked
// calls.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/posix.h"
#include "trainers/collectives/failure.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/transport.h"

namespace mtrun::collectives {

/// A peer's end (pidfd, or the end of its control connection) becomes the group's failure; its shutdown
/// notice is read. When the group has failed, whatever the cause, the peers are told and sleeping calls are
/// woken until none sleeps. Construction and destruction on one thread.
class Monitor {
 public:
  /// All arguments outlive this.
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

  // The thread only.
  bool stopping_ = false;
  std::vector<std::string> inbox_;
  std::vector<bool> gone_;

  std::thread thread_;
};

}  // namespace mtrun::collectives
