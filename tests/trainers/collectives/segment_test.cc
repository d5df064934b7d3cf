#include "trainers/collectives/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

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

TEST(SegmentTest, PeersCannotWriteNorShrink) {
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
  EXPECT_FALSE(OpenAs(*own, 42, 2).ok());
  EXPECT_FALSE(OpenAs(*own, 43, 1).ok());
  EXPECT_FALSE(PeerSegment::Open(UniqueFd(memfd_create("short", MFD_CLOEXEC)), 42, 1, 4, kSlot).ok());
}

TEST(SegmentTest, NoticesBeyondTheMemoryAreRefused) {
  auto own = MustCreate();
  auto peer = OpenAs(*own, 42, 1);
  ASSERT_TRUE(peer.ok());
  Notice notice;
  EXPECT_FALSE((*peer)->View(notice, kSlot + 1).ok());
  notice.area_offset = 1 << 20;
  notice.area_bytes = 4096;
  EXPECT_FALSE((*peer)->View(notice, 16).ok()) << "there is no such area";
}

TEST(SegmentTest, FindKnowsLivingAreasOnly) {
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

TEST(SegmentTest, FreedAreasGiveTheirMemoryBack) {
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
