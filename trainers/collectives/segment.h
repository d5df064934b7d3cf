// The shared memory of one rank in one generation: an unnamed file (memfd) that only this rank writes and
// that its peers on the same host map read-only. Because it has no name, nothing remains however a process
// ends. It is never reused: if a rank wakes up in a later generation, it still writes only its own segment.
//
// Layout: SegmentHeader (one page) | slot 0 | slot 1 | areas ...
// Slot p % 2 holds the bytes that phase p exposes; an area is the memory of one shared tensor.
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

/// A rank's announcement of one phase: its call, and the location of the bytes that it exposes.
struct Notice {
  uint64_t generation = 0;  // GenerationHash
  uint32_t phase = 0;
  uint32_t reserved = 0;
  Call call;
  uint64_t area_offset = 0;  // file offset of the area, 0 for the slot of this phase
  uint64_t area_bytes = 0;
  uint64_t begin = 0;   // offset of the exposed bytes within the area or slot
  uint64_t stride = 0;  // Phase::stride
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

/// Returns 64 bits of the SHA-256 of the generation's text.
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

/// A zeroed range of the segment for one tensor. Its destructor returns the memory to the system, unless it
/// is exposed: then the memory is freed with the last mapping and descriptor of the segment, including the
/// peers'.
struct Area {
  std::shared_ptr<UniqueFd> file;
  uint64_t offset = 0;
  std::shared_ptr<Mapping> memory;
  bool exposed = false;  // peers may read it even if this group is dead; exchanging thread only
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

  /// Returns a descriptor through which peers can read but not write.
  absl::StatusOr<UniqueFd> ReadOnly() const;
  /// Returns new zeroed memory in the segment, never used before. The pointer keeps it alive, even after
  /// this.
  absl::StatusOr<std::shared_ptr<Area>> Allocate(size_t bytes);
  /// Returns the area that contains [data, data + bytes), or null. The caller keeps that memory alive.
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

/// A peer's segment, read-only. Used by one thread.
class PeerSegment {
 public:
  /// Takes the peer's descriptor. Checks that it is the segment of `rank` in this generation and cannot
  /// shrink.
  static absl::StatusOr<std::unique_ptr<PeerSegment>> Open(UniqueFd file, uint64_t generation, int rank,
                                                           int world, size_t slot_bytes);

  const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(base_->data()); }
  /// Returns the bytes that a notice exposes, at least `bytes` of them. Maps areas on first use. Takes a copy
  /// of the notice, because its writer could change it after the check.
  absl::StatusOr<const char*> View(Notice notice, size_t bytes);

 private:
  UniqueFd file_;
  size_t slot_bytes_ = 0;
  std::shared_ptr<Mapping> base_;
  std::map<uint64_t, std::shared_ptr<Mapping>> areas_;  // by file offset
};

}  // namespace mtrun::collectives
