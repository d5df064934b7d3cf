// Where clients of PyTorch's store go that have come to the rendezvous's endpoint: a program of a static job
// may have the same --master_addr and --master_port in its init_method. Thread-safe.
#pragma once

#include "base/mutex.h"
#include "base/posix.h"
#include "launcher/store/tcp_store_server.h"

namespace mtrun::launcher {

class StoreDoor {
 public:
  /// To the store that is served here; closed where none is, which the log says once.
  void Enter(UniqueFd connection);
  /// nullptr: none is served here from now on. `store` outlives the next call.
  void LeadTo(TcpStoreServer* store);

 private:
  Mutex mu_;
  TcpStoreServer* store_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool said_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace mtrun::launcher
