// A c10d::Store over a Bootstrap: what NCCL's process group exchanges its identifiers through.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe, as the bootstrap is. Values of any bytes: they travel as hexadecimal digits, since the
/// agent's channel carries text. get and wait block until the keys are there or the bootstrap is aborted,
/// whatever timeout c10d gives. check, deleteKey and getNumKeys know only what
/// this process has set or read. Errors are thrown, as c10d expects.
class BootstrapStore : public c10d::Store {
 public:
  /// `prefix`: of all keys, never used by another group before ("1.3/nccl/").
  BootstrapStore(std::shared_ptr<Bootstrap> bootstrap, std::string prefix);

  using Store::set;
  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  /// Whether this process has set or read all of them.
  bool check(const std::vector<std::string>& keys) override;
  bool deleteKey(const std::string& key) override;
  int64_t getNumKeys() override;
  /// Counts across processes need an owner, which a bootstrap lacks: throws.
  int64_t add(const std::string& key, int64_t value) override;

 private:
  struct Known;
  const std::shared_ptr<Bootstrap> bootstrap_;
  const std::string prefix_;
  std::shared_ptr<Known> known_;
};

}  // namespace mtrun::collectives
