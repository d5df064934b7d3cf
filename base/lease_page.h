// The leases of a node's workers, in a page of memory shared with their agent. A lease says until when
// workers may commit results of a generation; the agent extends it, workers check it before each commit. Each
// generation has its own: a worker that was away too long does not regain it through the next generation's,
// and workers still finishing a step in the old one keep theirs. Thread-safe for one writer and any readers,
// except for moves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"

namespace mtrun {

class LeasePage {
 public:
  /// Makes a new page without a deadline; programs started later inherit its descriptor.
  static absl::StatusOr<LeasePage> Make();
  /// Maps the page of an inherited descriptor for reading. The descriptor stays open and is not owned.
  /// kInvalidArgument if `fd` is not a lease page.
  static absl::StatusOr<LeasePage> Map(int fd);

  /// Sets the lease of generation id `generation`. `deadline` is a time since boot, as BootNow() counts it;
  /// if it is missing, the lease never ends. The previous seven generations keep their leases, older ones
  /// end. REQUIRES: made here, not mapped.
  void Set(uint64_t generation, std::optional<Duration> deadline);
  /// Sets the lease of workers that have left generation `left`, provided that no other generation has
  /// followed it there. The generation's own lease does not change: workers still finishing a step in it keep
  /// that deadline. REQUIRES: made here, not mapped.
  void SetOutside(uint64_t left, Duration deadline);
  /// Returns the deadline of the newest generation; nothing if it never ends.
  std::optional<Duration> deadline() const;
  /// Returns whether the lease is over at `now` (time since boot). Generation 0 (none) uses the newest lease.
  bool Over(uint64_t generation, Duration now) const;
  /// Returns whether both the generation's lease and that of workers that have left it are over.
  bool OverOutside(uint64_t left, Duration now) const;
  /// Returns the descriptor to inherit; -1 for a mapped page.
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
