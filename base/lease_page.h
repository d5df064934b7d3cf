// The lease of a node's workers, in a page of memory that they share with their agent: until when they may
// commit what they compute. The agent moves the deadline on, its workers look at it before each commit.
// Thread-safe, but for moves.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"

namespace mtrun {

class LeasePage {
 public:
  /// A new page without a deadline; programs that are started later inherit its descriptor.
  static absl::StatusOr<LeasePage> Make();
  /// The page of an inherited descriptor, to be read; the descriptor stays open, and nobody's.
  /// kInvalidArgument names one that is no such page.
  static absl::StatusOr<LeasePage> Map(int fd);

  /// `deadline`: time since boot, as BootNow() counts it; nothing: none, the lease is always valid.
  /// REQUIRES: made here, not mapped.
  void Set(std::optional<Duration> deadline);
  std::optional<Duration> deadline() const;
  /// `now`: time since boot.
  bool Over(Duration now) const;
  /// The descriptor to inherit; -1 of a page that was mapped.
  int fd() const { return fd_.get(); }

 private:
  struct Page;
  struct Unmap {
    void operator()(Page* page) const;
  };
  using Memory = std::unique_ptr<Page, Unmap>;

  LeasePage(UniqueFd fd, Memory page) : fd_(std::move(fd)), page_(std::move(page)) {}
  static absl::StatusOr<Memory> MapMemory(int fd, int protection);

  UniqueFd fd_;
  Memory page_;
};

}  // namespace mtrun
