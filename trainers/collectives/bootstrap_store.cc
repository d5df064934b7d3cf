#include "trainers/collectives/bootstrap_store.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace mtrun::collectives {

/// Keys that this process has set or read; clones share them.
struct BootstrapStore::Known {
  Mutex mu;
  std::set<std::string> keys ABSL_GUARDED_BY(mu);
};

namespace {

void ThrowUnlessOk(const absl::Status& status, const std::string& key) {
  TORCH_CHECK(status.ok(), "exchange ", key, " with the other workers: ", std::string(status.message()));
}

}  // namespace

BootstrapStore::BootstrapStore(std::shared_ptr<Bootstrap> bootstrap, std::string prefix)
    : bootstrap_(std::move(bootstrap)), prefix_(std::move(prefix)), known_(std::make_shared<Known>()) {}

c10::intrusive_ptr<c10d::Store> BootstrapStore::clone() {
  auto copy = c10::make_intrusive<BootstrapStore>(bootstrap_, prefix_);
  copy->known_ = known_;
  return copy;
}

void BootstrapStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  const absl::string_view bytes(reinterpret_cast<const char*>(value.data()), value.size());
  ThrowUnlessOk(bootstrap_->Set(prefix_ + key, absl::BytesToHexString(bytes)), key);
  const MutexLock lock(known_->mu);
  known_->keys.insert(key);
}

std::vector<uint8_t> BootstrapStore::get(const std::string& key) {
  const std::string full = prefix_ + key;
  const auto values = bootstrap_->Wait({full});
  ThrowUnlessOk(values.status(), key);
  const std::string bytes = absl::HexStringToBytes(values->at(full));
  const MutexLock lock(known_->mu);
  known_->keys.insert(key);
  return {bytes.begin(), bytes.end()};
}

void BootstrapStore::wait(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) get(key);
}

void BootstrapStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) {
  wait(keys);
}

bool BootstrapStore::check(const std::vector<std::string>& keys) {
  const MutexLock lock(known_->mu);
  for (const std::string& key : keys) {
    if (known_->keys.count(key) == 0) return false;
  }
  return true;
}

bool BootstrapStore::deleteKey(const std::string& key) {
  const MutexLock lock(known_->mu);
  return known_->keys.erase(key) > 0;
}

int64_t BootstrapStore::getNumKeys() {
  const MutexLock lock(known_->mu);
  return static_cast<int64_t>(known_->keys.size());
}

int64_t BootstrapStore::add(const std::string& key, int64_t) {
  TORCH_CHECK(false, "count ", key, ": a store over a bootstrap has no counters");
}

}  // namespace mtrun::collectives
