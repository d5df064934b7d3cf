// Forwards clients of PyTorch's store that connect to the rendezvous's endpoint: a program of a static job
// may have the same --master_addr and --master_port in its init_method. Thread-safe.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "base/posix.h"
#include "launcher/store/tcp_store_server.h"

namespace mtrun::launcher {

class StoreDoor {
 public:
  /// Passes the connection to the local store. If none is served here it is closed, which is logged once.
  void Enter(UniqueFd connection);
  /// Lets connections wait, at most a bounded number, for the store of the next generation.
  void Hold();
  /// Sets the store, also for waiting connections; nullptr: none is served here. `store` must outlive the
  /// next call.
  void LeadTo(TcpStoreServer* store);

 private:
  void Pass(UniqueFd connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  TcpStoreServer* store_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool holds_ ABSL_GUARDED_BY(mu_) = true;  // the first generation is to come
  std::vector<UniqueFd> waiting_ ABSL_GUARDED_BY(mu_);
  bool said_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace mtrun::launcher
