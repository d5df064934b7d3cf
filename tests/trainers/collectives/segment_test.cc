#include "trainers/collectives/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status.h"

namespace mtrun::collectives {
namespace {

constexpr size_t kSlot = 8192;

std::unique_ptr<OwnSegment> MustCreate(int rank = 1, uint64_t generation = 42) {
  auto segment = OwnSegment::Create(generation, rank, 4, kSlot);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}

absl::StatusOr<std::unique_ptr<PeerSegment>> OpenAs(const OwnSegment& segment, uint64_t generation,
                                                    int rank) {
  auto file = segment.ReadOnly();
  EXPECT_TRUE(file.ok()) << file.status();
  return PeerSegment::Open(*std::move(file), generation, rank, 4, kSlot);
}

auto Refused(const std::string& words) {
  return support::StatusIs(absl::StatusCode::kInternal, testing::HasSubstr(words));
}

/// Returns memory of `bytes` zeros that cannot shrink.
UniqueFd SealedZeros(size_t bytes) {
  UniqueFd fd(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return fd;
}

TEST(SegmentTest, PeersSeeSlotsAndAreas) {
  auto own = MustCreate();
  auto peer = OpenAs(*own, 42, 1);
  ASSERT_TRUE(peer.ok()) << peer.status();
  std::memcpy(own->slot(3), "slot of an odd phase", 21);
  Notice notice;
  notice.phase = 5;  // the same slot
  auto view = (*peer)->View(notice, 21);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_STREQ(*view, "slot of an odd phase");

  auto area = own->Allocate(10000);
  ASSERT_TRUE(area.ok()) << area.status();
  std::memcpy((*area)->memory->data() + 5000, "in the area", 12);
  notice.area_offset = (*area)->offset;
  notice.area_bytes = (*area)->memory->bytes();
  notice.begin = 5000;
  view = (*peer)->View(notice, 12);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_STREQ(*view, "in the area");
}

TEST(SegmentTest, PeersCanNeitherWriteNorShrink) {
  auto own = MustCreate();
  auto file = own->ReadOnly();
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0), MAP_FAILED);
  EXPECT_EQ(write(file->get(), "x", 1), -1);
  EXPECT_NE(ftruncate(file->get(), 0), 0);
  EXPECT_NE(fcntl(file->get(), F_GET_SEALS) & F_SEAL_SHRINK, 0);
}

TEST(SegmentTest, AnotherRankGenerationOrFileIsRefused) {
  auto own = MustCreate();
  const auto other = Refused("belongs to another rank, generation or version of mtrun (it says rank 1 of 4)");
  EXPECT_THAT(OpenAs(*own, 42, 2), other);
  EXPECT_THAT(OpenAs(*own, 43, 1), other);
  EXPECT_THAT(PeerSegment::Open(*own->ReadOnly(), 42, 1, 5, kSlot), other) << "of another world";
  EXPECT_THAT(PeerSegment::Open(*own->ReadOnly(), 42, 1, 4, kSlot / 2), other) << "of other slots";
  EXPECT_THAT(PeerSegment::Open(SealedZeros(kPage + 2 * kSlot), 42, 1, 4, kSlot),
              Refused("it says rank 0 of 0"))
      << "of zeros";
  EXPECT_THAT(PeerSegment::Open(SealedZeros(kPage + 2 * kSlot - 1), 42, 1, 4, kSlot),
              Refused("a peer's shared memory has 20479 bytes, expected 20480 from 0"));
}

TEST(SegmentTest, NoticesOutsideTheMemoryAreRefused) {
  auto own = MustCreate();
  auto peer = OpenAs(*own, 42, 1);
  ASSERT_TRUE(peer.ok());
  Notice notice;
  EXPECT_THAT((*peer)->View(notice, kSlot + 1), Refused("a peer exposes bytes beyond its slot"));
  notice.area_offset = 1 << 20;
  notice.area_bytes = 4096;
  EXPECT_THAT((*peer)->View(notice, 16), Refused("expected 4096 from 1048576")) << "there is no such area";
}

// A peer's notices must not be trusted: sums can wrap around, and an area can grow after it was mapped.
TEST(SegmentTest, NoticesWithOverflowingSumsAreRefused) {
  auto own = MustCreate();
  auto area = own->Allocate(4096);
  ASSERT_TRUE(area.ok());
  auto peer = OpenAs(*own, 42, 1);
  ASSERT_TRUE(peer.ok());
  Notice notice;
  notice.area_offset = (*area)->offset;
  notice.area_bytes = ~uint64_t{0} - 4095;
  EXPECT_THAT((*peer)->View(notice, 16), Refused("expected 18446744073709547520 from"))
      << "an area around the end of all addresses";
  notice.area_bytes = 4096;
  notice.begin = ~uint64_t{0} - 7;
  EXPECT_THAT((*peer)->View(notice, 16), Refused("a peer exposes bytes beyond its area"))
      << "before the area";
  notice.area_offset = 0;
  EXPECT_THAT((*peer)->View(notice, 16), Refused("a peer exposes bytes beyond its slot"))
      << "before the slot";
  notice.area_offset = (*area)->offset;
  notice.begin = 0;
  ASSERT_TRUE((*peer)->View(notice, 4096).ok());
  auto next = own->Allocate(1 << 20);
  ASSERT_TRUE(next.ok());
  notice.area_bytes = 1 << 20;
  notice.begin = 1 << 19;
  EXPECT_THAT((*peer)->View(notice, 16), Refused("a peer exposes bytes beyond its area"))
      << "beyond what was mapped of the area";
}

TEST(SegmentTest, ShrinkableMemoryIsRefused) {
  auto own = MustCreate();
  auto file = own->ReadOnly();
  ASSERT_TRUE(file.ok());
  UniqueFd copy(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::string bytes(kPage + 2 * kSlot, '\0');
  ASSERT_EQ(pread(file->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(write(copy.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_THAT(PeerSegment::Open(std::move(copy), 42, 1, 4, kSlot), Refused("is not sealed against shrinking"))
      << "reading it could end this process";
}

TEST(SegmentTest, FindReturnsOnlyLiveAreas) {
  auto own = MustCreate();
  auto area = own->Allocate(4096);
  ASSERT_TRUE(area.ok());
  char* data = (*area)->memory->data();
  EXPECT_EQ(own->Find(data, 4096), *area);
  EXPECT_EQ(own->Find(data + 100, 3996), *area);
  EXPECT_EQ(own->Find(data + 100, 4096), nullptr) << "reaches beyond the area";
  EXPECT_EQ(own->Find(&area, 8), nullptr);
  area->reset();
  EXPECT_EQ(own->Find(data, 4096), nullptr);
}

TEST(SegmentTest, FreedAreasReturnTheirMemory) {
  auto own = MustCreate();
  auto file = own->ReadOnly();
  ASSERT_TRUE(file.ok());
  const auto blocks = [&] {
    struct stat status = {};
    fstat(file->get(), &status);
    return status.st_blocks;
  };
  const auto before = blocks();
  auto area = own->Allocate(1 << 20);
  ASSERT_TRUE(area.ok());
  EXPECT_GE(blocks(), before + (1 << 20) / 512);
  area->reset();
  EXPECT_EQ(blocks(), before);
}

}  // namespace
}  // namespace mtrun::collectives
