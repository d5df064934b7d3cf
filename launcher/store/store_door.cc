#include "launcher/store/store_door.h"

#include <algorithm>
#include <utility>

#include "base/file_limit.h"
#include "base/log.h"

namespace mtrun::launcher {
namespace {

size_t MaxWaiting() { return std::clamp<size_t>(FileLimit() / 8, 64, 4096); }

}  // namespace

void StoreDoor::Enter(UniqueFd connection) {
  const MutexLock lock(mu_);
  if (!holds_) return Pass(std::move(connection));
  // PyTorch's client connects again if it is turned away.
  if (waiting_.size() < MaxWaiting()) waiting_.push_back(std::move(connection));
}

void StoreDoor::Pass(UniqueFd connection) {
  if (store_ != nullptr) return store_->Adopt(std::move(connection));
  if (std::exchange(said_, true)) return;
  log::Warning(
      "a program looks for PyTorch's store at the rendezvous's endpoint, where none is served now: let it "
      "use "
      "MASTER_ADDR and MASTER_PORT of its environment (init_method \"env://\")");
}

void StoreDoor::Hold() {
  const MutexLock lock(mu_);
  holds_ = true;
}

void StoreDoor::LeadTo(TcpStoreServer* store) {
  const MutexLock lock(mu_);
  store_ = store;
  holds_ = false;
  for (UniqueFd& connection : std::exchange(waiting_, {})) Pass(std::move(connection));
}

}  // namespace mtrun::launcher
