// A cache on a full disk: the fetcher reports it, waits, and continues. No shard is ever incomplete.
#include <signal.h>

#include "datasets/packed/index.h"
#include "tests/mtdata/serve_fetch.h"
#include "tests/support/small_disk.h"

namespace mtrun::mtdata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kDisk = 4 << 20;

class FullDisk : public ServeFetch {
 protected:
  void SetUp() override {
    auto disk = support::SmallDisk::Make(folder_.File("cache"), kDisk);
    if (!disk.ok()) GTEST_SKIP() << disk.status().message();
    disk_ = *std::move(disk);
  }
  /// Expects every file with a shard's name to be complete.
  void ExpectNothingByHalf() const {
    const auto index = datasets::ReadIndex(folder_.File("root/set"));
    ASSERT_TRUE(index.ok()) << index.status();
    for (const auto& [file, entry] : datasets::ShardsOf(*index)) {
      const std::string path = absl::StrCat(folder_.File("cache/"), datasets::IndexDigest(*index), "/", file);
      if (!fs::exists(path)) continue;
      EXPECT_EQ(support::ReadText(path), support::ReadText(folder_.File("root/set/") + file)) << file;
    }
  }

  std::unique_ptr<support::SmallDisk> disk_;
};

TEST_F(FullDisk, BeforeAnyDataPausesTheFetch) {
  const auto server = Serve();
  disk_->Fill();
  const auto fetch = Fetch();
  const auto said = fetch->WaitForLine("waiting: ");
  EXPECT_THAT(said.value_or(fetch->Text()),
              AllOf(HasSubstr("No space left on device"),
                    HasSubstr("nothing is lost, and fetching continues when there is disk space")));
  ExpectNothingByHalf();
  disk_->Free();
  ExpectCopy(*fetch);
}

TEST_F(FullDisk, DoesNotPauseTheFetchOfACachedSet) {
  const auto server = Serve();
  ExpectCopy(*Fetch());
  disk_->Fill();
  ExpectCopy(*Fetch());
}

/// Space for the index of another set is made like that for a shard.
TEST_F(FullDisk, BeforeAnotherIndexEvictsUnusedFiles) {
  const auto server = Serve();
  ExpectCopy(*Fetch());
  trainers::testing::WritePackedSet(folder_.File("root"), "other", {.train = 300, .test = 50},
                                    trainers::testing::VariedPixel);
  disk_->Fill();
  const auto fetch = Fetch("other");
  ASSERT_EQ(fetch->Wait(), 0) << fetch->Text();
}

TEST_F(FullDisk, DuringAShardResumesThere) {
  const auto server = Serve();
  disk_->Leave(600 << 10);  // of 1.2 MB
  const auto fetch = Fetch();
  const auto said = fetch->WaitForLine("waiting: ");
  EXPECT_THAT(said.value_or(fetch->Text()),
              AllOf(HasSubstr("/shard_00000.safetensors.part."), HasSubstr("No space left on device"),
                    HasSubstr("nothing is lost, and fetching continues when there is disk space")));
  ExpectNothingByHalf();
  ASSERT_THAT(CachedShard(), HasSubstr(".part."));
  EXPECT_GT(fs::file_size(CachedShard()), 0u) << "what fits is kept";
  // The client that started the fetch may exit.
  fetch->Signal(SIGTERM);
  EXPECT_EQ(fetch->Wait(), 128 + SIGTERM) << fetch->Text();
  disk_->Free();
  ExpectCopy(*Fetch());
  EXPECT_GE(CountOf(*server, "train/shard_00000.safetensors 206 "), 1u)
      << server->Text() << support::ReadText(folder_.File("cache/" + datasets::FetcherFile("log")));
}

/// Unused files are evicted.
TEST_F(FullDisk, EvictsUnusedFiles) {
  const auto server = Serve();
  ExpectCopy(*Fetch());
  trainers::testing::WritePackedSet(folder_.File("root"), "other", {.train = 300, .test = 50},
                                    trainers::testing::VariedPixel);
  disk_->Leave(100 << 10);
  const auto fetch = Fetch("other");
  ASSERT_EQ(fetch->Wait(), 0) << fetch->Text();
  EXPECT_EQ(CachedShard().find(fetch->OutLines().at(0)), 0u) << "the first set's is gone";
}

}  // namespace
}  // namespace mtrun::mtdata
