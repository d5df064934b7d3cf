// The leases of a node's workers, in a page of memory that they share with their agent: until when they may
// commit what they compute in a generation. The agent moves the deadline on, its workers look at it before
// each commit. A generation has a lease of its own: one that was away too long does not get it back with the
// next one's, and workers that still end their last step in the old one keep theirs meanwhile. Thread-safe
// for one who sets and any who look, but for moves.
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
  /// A new page without a deadline; programs that are started later inherit its descriptor.
  static absl::StatusOr<LeasePage> Make();
  /// The page of an inherited descriptor, to be read; the descriptor stays open, and nobody's.
  /// kInvalidArgument names one that is no such page.
  static absl::StatusOr<LeasePage> Map(int fd);

  /// `generation`: its id. `deadline`: time since boot, as BootNow() counts it; nothing: none, the lease is
  /// always valid. Those of the seven generations before stay as they are, older ones are over.
  /// REQUIRES: made here, not mapped.
  void Set(uint64_t generation, std::optional<Duration> deadline);
  /// The lease of workers that have left that generation, and in which no other one has followed it. It
  /// leaves that generation's own as it is: who still ends a step there has until that one's end.
  /// REQUIRES: made here, not mapped.
  void SetOutside(uint64_t left, Duration deadline);
  /// Of the newest generation.
  std::optional<Duration> deadline() const;
  /// `now`: time since boot. The lease of a worker that is in no generation (0) is the newest one's.
  bool Over(uint64_t generation, Duration now) const;
  /// Both the generation's and that of workers that have left it.
  bool OverOutside(uint64_t left, Duration now) const;
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
