#include "base/lease_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

constexpr uint64_t kMagic = 0x657361656c746d00ULL;  // "\0mtlease"
constexpr uint64_t kVersion = 2;
constexpr off_t kBytes = 4096;
// Bound on the generations that can follow each other while a worker finishes its step.
constexpr size_t kLeases = 8;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

absl::Status NoLeasePage(int fd, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("descriptor ", fd, " is not a lease page: ", why));
}

absl::Status CheckFile(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return NoLeasePage(fd, ErrnoStatus(errno, "stat").message());
  if (status.st_size != kBytes)
    return NoLeasePage(fd, absl::StrCat(status.st_size, " bytes instead of ", kBytes));
  // If a file shrank under its mapping, the next access would kill the process.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return NoLeasePage(fd, "its size is not sealed");
  return absl::OkStatus();
}

}  // namespace

struct LeasePage::Page {
  struct Lease {
    std::atomic<uint64_t> generation{0};
    std::atomic<int64_t> deadline{kNever};  // nanoseconds since boot

    void Become(uint64_t next, int64_t ends) {
      if (generation != next) deadline = 0;  // neither lease is valid during the change
      generation = next;
      deadline = ends;
    }
    bool Holds(uint64_t of, Duration now) const {
      if (generation != of) return false;
      const int64_t ends = deadline;
      // Checked again, because another generation may have replaced this one since.
      return generation == of && now.count() < ends;
    }
  };
  uint64_t magic = kMagic, version = kVersion;
  std::atomic<uint64_t> newest{0};  // index of the newest lease
  std::array<Lease, kLeases> leases;
  Lease outside{.deadline{0}};  // readers of version 2 that do not know this field stay safe
};

void LeasePage::Unmap::operator()(Page* page) const { munmap(page, kBytes); }

absl::StatusOr<LeasePage::Memory> LeasePage::MapMemory(int fd, int protection) {
  static_assert(std::atomic<int64_t>::is_always_lock_free, "a lock would be another process's");
  static_assert(sizeof(Page) <= kBytes);
  void* memory = mmap(nullptr, kBytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "map the lease page");
  return Memory(static_cast<Page*>(memory));
}

absl::StatusOr<LeasePage> LeasePage::Make() {
  // Without MFD_CLOEXEC, because workers inherit it.
  UniqueFd fd(memfd_create("mtrun-lease", MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "create the lease page");
  if (ftruncate(fd.get(), kBytes) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "set the size of the lease page");
  }
  MT_ASSIGN_OR_RETURN(Memory memory, MapMemory(fd.get(), PROT_READ | PROT_WRITE));
  new (memory.get()) Page;
  return LeasePage(std::move(fd), std::move(memory));
}

absl::StatusOr<LeasePage> LeasePage::Map(int fd) {
  MT_RETURN_IF_ERROR(CheckFile(fd));
  auto memory = MapMemory(fd, PROT_READ);
  if (!memory.ok()) return NoLeasePage(fd, memory.status().message());
  if ((*memory)->magic != kMagic) return NoLeasePage(fd, "its magic number is wrong");
  if ((*memory)->version != kVersion)
    return NoLeasePage(fd, absl::StrCat("version ", (*memory)->version, " instead of ", kVersion));
  return LeasePage(UniqueFd(), *std::move(memory));
}

void LeasePage::Set(uint64_t generation, std::optional<Duration> deadline) {
  MT_CHECK(fd_.valid()) << "only the agent that created a lease page sets it";
  const int64_t ends = deadline ? deadline->count() : kNever;
  const uint64_t place = page_->newest;
  if (page_->leases[place].generation == generation) {
    page_->leases[place].deadline = ends;
    return;
  }
  const uint64_t next = (place + 1) % kLeases;
  page_->leases[next].Become(generation, ends);
  page_->newest = next;
}

void LeasePage::SetOutside(uint64_t left, Duration deadline) {
  MT_CHECK(fd_.valid()) << "only the agent that created a lease page sets it";
  page_->outside.Become(left, deadline.count());
}

std::optional<Duration> LeasePage::deadline() const {
  const int64_t deadline = page_->leases[page_->newest % kLeases].deadline;
  return deadline == kNever ? std::nullopt : std::optional<Duration>(deadline);
}

bool LeasePage::Over(uint64_t generation, Duration now) const {
  if (generation == 0) return now.count() >= page_->leases[page_->newest % kLeases].deadline;
  return std::none_of(page_->leases.begin(), page_->leases.end(),
                      [&](const Page::Lease& lease) { return lease.Holds(generation, now); });
}

bool LeasePage::OverOutside(uint64_t left, Duration now) const {
  return Over(left, now) && (left == 0 || !page_->outside.Holds(left, now));
}

}  // namespace mtrun
