// The shared memory of one rank in one generation: a nameless file (memfd) that this rank alone writes and
// that its peers on the same host map read-only. It has no name, so nothing remains however a process
// ends, and it is never used again: a rank that wakes up in a later generation still writes only its own.
//
// Layout: SegmentHeader (one page) | slot 0 | slot 1 | areas ...
// Slot p % 2 holds what phase p exposes; an area is the memory of one shared tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "trainers/collectives/types.h"

namespace mtrun::collectives {

inline constexpr size_t kPage = 4096;

/// What a rank says with each phase: which call it is in, and where the bytes that it exposes lie.
struct Notice {
  uint64_t generation = 0;  // GenerationHash
  uint32_t phase = 0;
  uint32_t reserved = 0;
  Call call;
  uint64_t area_offset = 0;  // file offset of the area, 0 for the slot of this phase
  uint64_t area_bytes = 0;
  uint64_t begin = 0;  // of the exposed bytes within area or slot
};

struct SegmentHeader {
  uint64_t magic = 0;
  uint64_t generation = 0;
  uint64_t slot_bytes = 0;
  uint32_t rank = 0;
  uint32_t world = 0;
  alignas(64) std::atomic<uint32_t> phase;     // futex: phases published so far, wraps around
  alignas(64) std::atomic<uint32_t> sleeping;  // 1 while this rank may sleep on a peer's `phase`
  alignas(64) Notice notices[2];               // notice of phase p at p % 2
};
static_assert(sizeof(SegmentHeader) <= kPage);

/// 64 bits of SHA-256 of the generation's text.
uint64_t GenerationHash(std::string_view generation);

/// A mapped range of a file, unmapped on destruction.
class Mapping {
 public:
  Mapping(char* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* const data_;
  const size_t bytes_;
};

/// A zeroed stretch of the segment for one tensor. On destruction its memory is given back to the system, but
/// not while it is exposed: then it goes with the last mapping and descriptor of the segment, a peer's too.
struct Area {
  std::shared_ptr<UniqueFd> file;
  uint64_t offset = 0;
  std::shared_ptr<Mapping> memory;
  bool exposed = false;  // peers may be reading it, however dead this group is; the exchanging thread's
  ~Area();
};

/// This rank's own segment. Thread-safe.
class OwnSegment {
 public:
  static absl::StatusOr<std::unique_ptr<OwnSegment>> Create(uint64_t generation, int rank, int world,
                                                            size_t slot_bytes);

  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(base_->data()); }
  char* slot(uint32_t phase) { return base_->data() + kPage + (phase % 2) * slot_bytes_; }
  size_t slot_bytes() const { return slot_bytes_; }

  /// A descriptor through which peers can read but not write.
  absl::StatusOr<UniqueFd> ReadOnly() const;
  /// New zeroed memory inside the segment, never a stretch that was used before; lives as long as the
  /// pointer, also after the segment.
  absl::StatusOr<std::shared_ptr<Area>> Allocate(size_t bytes);
  /// The area that holds all of [data, data + bytes), or null. The caller keeps that memory alive.
  std::shared_ptr<Area> Find(const void* data, size_t bytes);

 private:
  // Constant after construction.
  std::shared_ptr<UniqueFd> file_;
  size_t slot_bytes_ = 0;
  std::shared_ptr<Mapping> base_;

  Mutex mu_;
  uint64_t end_ ABSL_GUARDED_BY(mu_) = 0;  // length of the file
  std::map<const char*, std::weak_ptr<Area>> areas_ ABSL_GUARDED_BY(mu_);
};

/// A peer's segment, read-only. One thread.
class PeerSegment {
 public:
  /// Takes the descriptor that the peer handed over and checks that it is the segment of `rank` in this
  /// generation and cannot shrink under its readers.
  static absl::StatusOr<std::unique_ptr<PeerSegment>> Open(UniqueFd file, uint64_t generation, int rank,
                                                           int world, size_t slot_bytes);

  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(base_->data()); }
  /// The bytes that a notice exposes, at least `bytes` of them. Maps areas on first sight. A copy of the
  /// notice: its writer could change it after it was checked.
  absl::StatusOr<const char*> View(Notice notice, size_t bytes);

 private:
  UniqueFd file_;
  size_t slot_bytes_ = 0;
  std::shared_ptr<Mapping> base_;
  std::map<uint64_t, std::shared_ptr<Mapping>> areas_;  // by file offset
};

}  // namespace mtrun::collectives
