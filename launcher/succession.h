// Finds out whether the mtrun that hosts the rendezvous is dead, on a thread of its own, and says then which
// services may take the job over: those of the other members. Its methods may be called from any thread.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "launcher/core/host_watch.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

class Succession {
 public:
  /// `take_over`: with the endpoints of those services, in order of rank, none where this node has not heard
  /// of any; called on its thread.
  using TakeOver = std::function<void(const std::vector<std::string>& endpoints)>;

  Succession(HostWatch watch, TakeOver take_over);
  ~Succession();
  Succession(const Succession&) = delete;

  void OnConnected(const rendezvous::ServiceHost& host);
  void OnDisconnected();
  /// The newest generation that this node knows of.
  void OnMembership(const rendezvous::Assignment& generation);

 private:
  void Run();

  const TakeOver take_over_;
  Mutex mu_;
  Condition changed_;
  HostWatch watch_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> services_ ABSL_GUARDED_BY(mu_);  // of the members
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace mtrun::launcher
