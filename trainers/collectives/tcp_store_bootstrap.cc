#include "trainers/collectives/tcp_store_bootstrap.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::collectives {
namespace {

// Keys are polled, first often, later less. LibTorch's store has no wait that another thread could end: a
// blocked one holds its connection.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kMaxPause{20};

// Returns the error's message without LibTorch's stack trace.
std::string TextOf(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  return ours == nullptr ? error.what() : ours->what_without_backtrace();
}

}  // namespace

StoreBootstrap::StoreBootstrap(c10::intrusive_ptr<c10d::Store> store, std::chrono::seconds timeout)
    : store_(std::move(store)), timeout_(timeout) {}

absl::Status StoreBootstrap::Set(std::string_view key, std::string_view value) {
  try {
    store_->set(std::string(key), std::vector<uint8_t>(value.begin(), value.end()));
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("set a key in the TCP store: ", TextOf(error)));
  }
}

absl::StatusOr<std::map<std::string, std::string>> StoreBootstrap::Wait(
    const std::vector<std::string>& keys) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kMaxPause)) {
    {
      const MutexLock lock(mu_);
      if (!status_.ok()) return status_;
    }
    MT_ASSIGN_OR_RETURN(const bool there, AllThere(keys));
    if (there) return Read(keys);
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("not all of these keys are in the TCP store after ", timeout_.count(),
                       " s (did every rank start?): ", absl::StrJoin(keys, ", ")));
    }
    const MutexLock lock(mu_);
    const TimePoint until = MonotonicNow() + pause;
    while (status_.ok() && aborted_.WaitUntil(mu_, until)) {
    }
  }
}

absl::StatusOr<bool> StoreBootstrap::AllThere(const std::vector<std::string>& keys) {
  try {
    return store_->check(keys);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("look for keys in the TCP store: ", TextOf(error)));
  }
}

absl::StatusOr<std::map<std::string, std::string>> StoreBootstrap::Read(
    const std::vector<std::string>& keys) {
  try {
    std::map<std::string, std::string> values;
    for (const std::string& key : keys) {
      const std::vector<uint8_t> value = store_->get(key);
      values[key] = std::string(value.begin(), value.end());
    }
    return values;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("read keys from the TCP store: ", TextOf(error)));
  }
}

void StoreBootstrap::Abort(std::string_view why) {
  {
    const MutexLock lock(mu_);
    if (status_.ok()) status_ = absl::AbortedError(View(why));
  }
  aborted_.NotifyAll();
}

absl::StatusOr<std::shared_ptr<Bootstrap>> ConnectTcpStore(const std::string& host, int port, int rank,
                                                           int world_size, bool agent_serves,
                                                           std::chrono::seconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = rank == 0 && !agent_serves;
  options.numWorkers = static_cast<std::size_t>(world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return std::shared_ptr<Bootstrap>(
        std::make_shared<StoreBootstrap>(c10::make_intrusive<c10d::TCPStore>(host, options), timeout));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(options.isServer ? "serve" : "reach", " the TCP store at ",
                                               host, " port ", port, ": ", TextOf(error)));
  }
}

}  // namespace mtrun::collectives
