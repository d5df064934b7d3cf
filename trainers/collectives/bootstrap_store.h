// A c10d::Store over a Bootstrap, through which NCCL's process group exchanges its identifiers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe, like the bootstrap. Values may hold any bytes; they are sent as hexadecimal digits because
/// the agent's channel carries text. get and wait block until the keys exist or the bootstrap is aborted, and
/// ignore c10d's timeouts. check, deleteKey and getNumKeys cover only keys that this process has set or read.
/// Errors are thrown, as c10d expects.
class BootstrapStore : public c10d::Store {
 public:
  /// `prefix`: put before all keys; no other group may ever have used it ("1.3/nccl/").
  BootstrapStore(std::shared_ptr<Bootstrap> bootstrap, std::string prefix);

  using Store::set;
  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  /// Returns true if this process has set or read all of `keys`.
  bool check(const std::vector<std::string>& keys) override;
  bool deleteKey(const std::string& key) override;
  int64_t getNumKeys() override;
  /// Throws: a bootstrap has no counters, because no process owns them.
  int64_t add(const std::string& key, int64_t value) override;

 private:
  struct Known;
  const std::shared_ptr<Bootstrap> bootstrap_;
  const std::string prefix_;
  std::shared_ptr<Known> known_;
};

}  // namespace mtrun::collectives
