#include "trainers/collectives/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

constexpr uint64_t kSegmentMagic = 0x3130656c6f63746dULL;  // "mtcole01"

size_t RoundUpToPage(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
size_t BaseBytes(size_t slot_bytes) { return kPage + 2 * slot_bytes; }

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer identifies memory by its address. If ranks are threads of one process, they share one
// mapping, so that races between them are detected. Keys: inode and file offset.
Mutex known_mu;
std::map<std::pair<ino_t, uint64_t>, std::weak_ptr<Mapping>> known ABSL_GUARDED_BY(known_mu);

std::shared_ptr<Mapping> Known(int fd, uint64_t offset, const std::shared_ptr<Mapping>& fresh) {
  struct stat status = {};
  fstat(fd, &status);
  const MutexLock lock(known_mu);
  std::weak_ptr<Mapping>& entry = known[{status.st_ino, offset}];
  if (std::shared_ptr<Mapping> mapping = entry.lock()) return mapping;
  entry = fresh;
  return fresh;
}
#else
std::shared_ptr<Mapping> Known(int, uint64_t, const std::shared_ptr<Mapping>& fresh) { return fresh; }
#endif

absl::StatusOr<std::shared_ptr<Mapping>> Map(int fd, uint64_t offset, size_t bytes, int protection,
                                             int flags) {
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED | flags, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("map ", bytes, " bytes of shared memory"));
  return Known(fd, offset, std::make_shared<Mapping>(static_cast<char*>(data), bytes));
}

/// Returns true if [begin, begin + bytes) is below `end`; cannot overflow.
bool Within(uint64_t begin, uint64_t bytes, uint64_t end) { return begin <= end && bytes <= end - begin; }

absl::Status CheckLength(int fd, uint64_t begin, uint64_t bytes) {
  struct stat status;
  if (fstat(fd, &status) != 0) return ErrnoStatus(errno, "stat a peer's shared memory");
  if (status.st_size < 0 || !Within(begin, bytes, static_cast<uint64_t>(status.st_size))) {
    return absl::InternalError(absl::StrCat("a peer's shared memory has ", status.st_size,
                                            " bytes, expected ", bytes, " from ", begin));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t GenerationHash(std::string_view generation) {
  return std::strtoull(Sha256Hex(generation).substr(0, 16).c_str(), nullptr, 16);
}

Mapping::~Mapping() { munmap(data_, bytes_); }

Area::~Area() {
  // A stopped peer would read zeros and could take them for a sum.
  if (memory == nullptr || exposed) return;
  fallocate(file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(memory->bytes()));
}

absl::StatusOr<std::unique_ptr<OwnSegment>> OwnSegment::Create(uint64_t generation, int rank, int world,
                                                               size_t slot_bytes) {
  auto segment = std::make_unique<OwnSegment>();
  segment->file_ =
      std::make_shared<UniqueFd>(memfd_create("mtrun-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = segment->file_->get();
  if (fd < 0) return ErrnoStatus(errno, "create shared memory (memfd_create)");
  segment->slot_bytes_ = slot_bytes;
  const size_t bytes = BaseBytes(slot_bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return ErrnoStatus(errno, "set the size of shared memory");
  // Without the seal, a file that shrinks would kill the peers that read its pages with SIGBUS.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) return ErrnoStatus(errno, "seal shared memory");
  MT_ASSIGN_OR_RETURN(segment->base_, Map(fd, 0, bytes, PROT_READ | PROT_WRITE, 0));
  {
    const MutexLock lock(segment->mu_);
    segment->end_ = bytes;
  }
  auto* header = new (segment->base_->data()) SegmentHeader();
  header->magic = kSegmentMagic;
  header->generation = generation;
  header->slot_bytes = slot_bytes;
  header->rank = static_cast<uint32_t>(rank);
  header->world = static_cast<uint32_t>(world);
  return segment;
}

absl::StatusOr<UniqueFd> OwnSegment::ReadOnly() const {
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", file_->get()).c_str(), O_RDONLY | O_CLOEXEC));
  // If there is no /proc, peers get the writable descriptor, which they still map read-only.
  if (!fd.valid()) fd = UniqueFd(fcntl(file_->get(), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "open shared memory for the peers");
  return fd;
}

absl::StatusOr<std::shared_ptr<Area>> OwnSegment::Allocate(size_t bytes) {
  const MutexLock lock(mu_);
  const size_t length = RoundUpToPage(bytes == 0 ? 1 : bytes);
  if (ftruncate(file_->get(), static_cast<off_t>(end_ + length)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("grow shared memory by ", length, " bytes"));
  }
  // fallocate reports a lack of memory here; touching the pages later would end the process by SIGBUS.
  if (fallocate(file_->get(), 0, static_cast<off_t>(end_), static_cast<off_t>(length)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("reserve ", length, " bytes of shared memory"));
  }
  auto area = std::make_shared<Area>();
  area->file = file_;
  area->offset = end_;
  end_ += length;
  MT_ASSIGN_OR_RETURN(area->memory,
                      Map(file_->get(), area->offset, length, PROT_READ | PROT_WRITE, MAP_POPULATE));
  areas_[area->memory->data()] = area;
  return area;
}

std::shared_ptr<Area> OwnSegment::Find(const void* data, size_t bytes) {
  const MutexLock lock(mu_);
  const char* first = static_cast<const char*>(data);
  for (auto next = areas_.upper_bound(first); next != areas_.begin();) {
    const auto found = std::prev(next);
    if (const std::shared_ptr<Area> area = found->second.lock()) {
      return first + bytes <= area->memory->data() + area->memory->bytes() ? area : nullptr;
    }
    next = areas_.erase(found);  // its memory is gone, and its address may be in use again
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<PeerSegment>> PeerSegment::Open(UniqueFd file, uint64_t generation, int rank,
                                                               int world, size_t slot_bytes) {
  auto segment = std::make_unique<PeerSegment>();
  // Reading a page that a file has lost ends a process by SIGBUS.
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return absl::InternalError("a peer's shared memory is not sealed against shrinking");
  MT_RETURN_IF_ERROR(CheckLength(file.get(), 0, BaseBytes(slot_bytes)));
  MT_ASSIGN_OR_RETURN(segment->base_, Map(file.get(), 0, BaseBytes(slot_bytes), PROT_READ, 0));
  segment->file_ = std::move(file);
  segment->slot_bytes_ = slot_bytes;
  const SegmentHeader& header = segment->header();
  if (header.magic != kSegmentMagic || header.generation != generation || header.slot_bytes != slot_bytes ||
      header.rank != static_cast<uint32_t>(rank) || header.world != static_cast<uint32_t>(world)) {
    return absl::InternalError(
        absl::StrCat("the shared memory of rank ", rank,
                     " belongs to another rank, generation or version of mtrun (it says rank ", header.rank,
                     " of ", header.world, ")"));
  }
  return segment;
}

absl::StatusOr<const char*> PeerSegment::View(Notice notice, size_t bytes) {
  if (notice.area_offset == 0) {
    if (!Within(notice.begin, bytes, slot_bytes_))
      return absl::InternalError("a peer exposes bytes beyond its slot");
    return base_->data() + kPage + (notice.phase % 2) * slot_bytes_ + notice.begin;
  }
  auto found = areas_.find(notice.area_offset);
  if (found == areas_.end()) {
    MT_RETURN_IF_ERROR(CheckLength(file_.get(), notice.area_offset, notice.area_bytes));
    MT_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping,
                        Map(file_.get(), notice.area_offset, notice.area_bytes, PROT_READ, MAP_POPULATE));
    found = areas_.emplace(notice.area_offset, std::move(mapping)).first;
  }
  if (!Within(notice.begin, bytes, found->second->bytes()))
    return absl::InternalError("a peer exposes bytes beyond its area");
  return found->second->data() + notice.begin;
}

}  // namespace mtrun::collectives
