#include "launcher/store/store_door.h"

#include <utility>

#include "base/log.h"

namespace mtrun::launcher {

void StoreDoor::Enter(UniqueFd connection) {
  const MutexLock lock(mu_);
  if (store_ != nullptr) return store_->Adopt(std::move(connection));
  if (std::exchange(said_, true)) return;
  log::Warning(
      "a program looks for PyTorch's store at the rendezvous's endpoint, where none is served now: let it "
      "use "
      "MASTER_ADDR and MASTER_PORT of its environment (init_method \"env://\")");
}

void StoreDoor::LeadTo(TcpStoreServer* store) {
  const MutexLock lock(mu_);
  store_ = store;
}

}  // namespace mtrun::launcher
