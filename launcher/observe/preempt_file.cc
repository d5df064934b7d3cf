#include "launcher/observe/preempt_file.h"

#include <asio.hpp>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"

namespace mtrun::launcher {
namespace {

/// Polling interval: network file systems send no events.
constexpr Duration kLookEvery = std::chrono::seconds(1);

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

PreemptFile::PreemptFile(asio::io_context& io, std::string path, std::function<void()> appeared)
    : timer_(io), path_(std::move(path)), appeared_(std::move(appeared)) {}

absl::Status PreemptFile::Watch() {
  if (path_.empty()) return absl::OkStatus();
  if (IsThere(path_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--preempt_file ", path_,
                     " exists already, so this node would leave at once; remove it to start again"));
  }
  Await();
  return absl::OkStatus();
}

void PreemptFile::Await() {
  timer_.expires_after(kLookEvery);
  timer_.async_wait([this](std::error_code cancelled) {
    if (cancelled) return;
    if (!IsThere(path_)) return Await();
    log::Warning("--preempt_file ", path_, " has appeared: leaving as on SIGTERM");
    appeared_();
  });
}

}  // namespace mtrun::launcher
