#include "datasets/import/encoded_import.h"

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import/encoded_plan.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/peers_python.h"
#include "tests/support/sync_log.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Images: 24 of different sizes for training, and 3 for each of val and test, JPEG and PNG.
class EncodedImportTest : public testing::Test {
 protected:
  EncodedImportTest() {
    for (int i = 0; i < 24; ++i) Put("train", i % 3 == 0 ? "cat" : "dog", i);
    for (int i = 0; i < 3; ++i) Put("val", "cat", i);
    for (int i = 0; i < 3; ++i) Put("test", "dog", i);
  }
  void Put(const std::string& split, const std::string& name, int i) {
    const std::string extension = i % 2 == 0 ? ".png" : ".jpg";
    const int height = 20 + i, width = 60 - 2 * i;
    test::Write(source_ + "/" + split + "/" + name + "/" + std::to_string(100 + i) + extension,
                test::Encode(extension, test::Picture(height, width, i), height, width));
  }
  ImportOptions Options(const std::string& destination, int threads = 2) const {
    return {.source = source_,
            .destination = folder_ / destination,
            .store = Store::kAuto,
            .threads = threads,
            .shard_bytes = 3000};
  }
  std::vector<std::string> Partial() const {
    std::vector<std::string> found;
    for (const std::string& name : test::Names(folder_.path())) {
      if (name[0] == '.') found.push_back(name);
    }
    return found;
  }

  const test::TempFolder folder_;
  const std::string source_ = folder_ / "photos";
};

TEST_F(EncodedImportTest, FilesKeepTheirBytesAndOrder) {
  const auto report = Import(Options("out"), test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->index.encoded);
  EXPECT_EQ(*ReadIndex(folder_ / "out"), report->index);
  const auto train = PackedSplit::Open(folder_ / "out", "train", /*verify=*/true);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 24);
  EXPECT_TRUE(train->encoded() && train->varies());
  EXPECT_GT(report->index.splits.at("train").shards.size(), 3u);
  EXPECT_EQ(train->record(0), test::Read(source_ + "/train/cat/100.png"));
  EXPECT_EQ(train->record(8), test::Read(source_ + "/train/dog/101.jpg"));
  EXPECT_EQ(train->image_size(8), (ImageSize{21, 58}));
  EXPECT_EQ(train->label(7), 0);
  EXPECT_EQ(train->label(8), 1);
  EXPECT_EQ(PackedSplit::Open(folder_ / "out", "val")->size(), 3);
  EXPECT_EQ(PackedSplit::Open(folder_ / "out", "test")->label(2), 1);
  EXPECT_THAT(Partial(), ElementsAre());
}

TEST_F(EncodedImportTest, ShardsAreOnTheDiskBeforeTheyHaveTheirNames) {
  support::SyncLog log(folder_.path());
  const auto report = Import(Options("out"), test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<std::string> synced = log.Take();
  for (const auto& [split, content] : report->index.splits) {
    for (size_t i = 0; i < content.shards.size(); ++i)
      EXPECT_THAT(synced, Contains(EndsWith(absl::StrFormat("/%s/shard_%05d.safetensors.part", split, i))));
    EXPECT_THAT(synced, Contains(EndsWith("/" + split)));
  }
  EXPECT_THAT(synced, Contains(AllOf(HasSubstr("/index.json."), EndsWith(".new"))));
  EXPECT_THAT(synced, Each(Not(StartsWith("out"))));
  EXPECT_EQ(synced.back(), ".");
}

TEST_F(EncodedImportTest, TheNumberOfThreadsAndTheArchiveDoNotMatter) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, bytes] : test::ReadTree(source_))
    entries.insert(entries.begin(), {"set/" + name, bytes});
  test::WriteTarGz(folder_ / "photos.tar.gz", entries);
  ImportOptions one = Options("one", 1), eight = Options("eight", 8), archive = Options("archive", 3);
  archive.source = folder_ / "photos.tar.gz";
  for (ImportOptions* options : {&one, &eight, &archive}) {
    options->rules.short_side = 24;
    const auto report = Import(*options, test::kGoOn);
    ASSERT_TRUE(report.ok()) << report.status();
  }
  EXPECT_EQ(test::ReadTree(folder_ / "one"), test::ReadTree(folder_ / "eight"));
  EXPECT_EQ(test::ReadTree(folder_ / "one"), test::ReadTree(folder_ / "archive"));
}

TEST_F(EncodedImportTest, LargerImagesAreShrunkAndKeepTheirShape) {
  ImportOptions options = Options("out");
  options.rules.short_side = 22;
  ASSERT_TRUE(Import(options, test::kGoOn).ok());
  const auto train = PackedSplit::Open(folder_ / "out", "train");
  EXPECT_EQ(train->record(0), test::Read(source_ + "/train/cat/100.png"));  // 20x60
  EXPECT_EQ(train->image_size(1), (ImageSize{22, 52}));                     // from 23x54
  for (int64_t i = 0; i < train->size(); ++i) {
    const auto image = DecodeImage(train->record(i));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->size, train->image_size(i));
    EXPECT_LE(std::min(image->size.height, image->size.width), 22);
  }
}

/// Returns a PNG whose header claims `side` x `side` pixels, with a correct checksum.
std::string Claiming(std::string png, uint32_t side) {
  constexpr size_t kType = 12, kSize = 16, kChecksum = 29;  // offsets in the header, every PNG's first chunk
  const auto put = [&](size_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i) png[at + i] = static_cast<char>(value >> (24 - 8 * i));
  };
  put(kSize, side);
  put(kSize + 4, side);
  const auto* type = reinterpret_cast<const Bytef*>(png.data() + kType);
  put(kChecksum, static_cast<uint32_t>(crc32(0, type, kChecksum - kType)));
  return png;
}

TEST_F(EncodedImportTest, DamagedRecordWithMorePixelsThanItsShardIsNotDecoded) {
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  const std::string png = test::Read(source_ + "/train/cat/100.png");
  for (const auto& [name, bytes] : test::ReadTree(folder_ / "out")) {
    const size_t at = bytes.find(png);
    if (at == std::string::npos) continue;
    test::Write(folder_ / ("out/" + name),
                bytes.substr(0, at) + Claiming(png, 60'000) + bytes.substr(at + png.size()));
  }
  const auto train = PackedSplit::Open(folder_ / "out", "train");
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->image_size(0), (ImageSize{20, 60}));
  const auto image = DecodeImage(train->record(0), train->decode_limits(0));
  EXPECT_EQ(image.status().message(), "60000x60000 exceeds the limit of 1200 pixels (its size in the shard)");
}

TEST_F(EncodedImportTest, FinishedShardsAreKeptAfterAStop) {
  // Bad files end the first attempt after all good images have been processed.
  test::Write(source_ + "/train/dog/105.jpg", "not an image");
  test::Write(source_ + "/train/dog/zzz.jpg", "");
  const auto refused = Import(Options("out"), test::kGoOn);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(HasSubstr("2 bad image files"), HasSubstr("train/dog/105.jpg: not a JPEG")));
  ASSERT_EQ(Partial().size(), 1u);
  const std::string kept = folder_ / Partial()[0] + "/train/shard_00001.safetensors";
  const auto written = fs::last_write_time(kept);
  fs::remove(folder_ / Partial()[0] + "/train/shard_00002.safetensors");  // as if it had been lost
  ImportOptions options = Options("out");
  options.tree.skip_bad = true;
  const auto report = Import(options, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->left_out.size(), 2u);
  EXPECT_EQ(fs::last_write_time(folder_ / "out/train/shard_00001.safetensors"), written);
  EXPECT_TRUE(PackedSplit::Open(folder_ / "out", "train", true).ok());
  EXPECT_THAT(Partial(), ElementsAre());

  ImportOptions whole = Options("whole");
  whole.tree.skip_bad = true;
  ASSERT_TRUE(Import(whole, test::kGoOn).ok());
  EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "whole"));
}

TEST_F(EncodedImportTest, ClassNamesTooLargeForAnIndexAreRefusedFirst) {
  Put("train", "caf\xe9", 5);
  const auto refused = Import(Options("out"), test::kGoOn);
  ASSERT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("\"caf\\xe9\" is not UTF-8"));
  EXPECT_THAT(Partial(), ElementsAre());
}

TEST_F(EncodedImportTest, UnreadableFileIsReadByTheNextAttempt) {
  test::Write(source_ + "/train/dog/105.jpg", "not an image");
  const auto files = FindImageFiles({.source = source_});
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string lost = source_ + "/train/cat/103.jpg", aside = folder_ / "aside";
  fs::rename(lost, aside);
  EXPECT_THAT(std::string(ImportEncoded(*files, Options("out"), test::kGoOn).status().message()),
              HasSubstr("2 bad image files"));
  fs::rename(aside, lost);
  ImportOptions options = Options("out");
  options.tree.skip_bad = true;
  const auto report = ImportEncoded(*files, options, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->left_out.size(), 1u);

  options.destination = folder_ / "whole";
  ASSERT_TRUE(ImportEncoded(*files, options, test::kGoOn).ok());
  EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "whole"));
}

TEST_F(EncodedImportTest, ImportWithOtherRulesStartsOver) {
  const auto files = FindImageFiles({.source = source_});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(ImportKey(*files, {}, 1), ImportKey(*files, {}, 1));
  EXPECT_NE(ImportKey(*files, {}, 1), ImportKey(*files, {.exif = false}, 1));
}

TEST_F(EncodedImportTest, CancellingLeavesNoDataSet) {
  const std::atomic<bool> cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(Import(Options("out"), cancelled).status()));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_TRUE(Import(Options("out"), test::kGoOn).ok());
}

TEST_F(EncodedImportTest, ReplacingLeavesNothingOfTheOldSet) {
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Import(Options("out"), test::kGoOn).status()));
  ImportOptions options = Options("out");
  options.replace = true;
  options.rules.max_side = 30;
  ASSERT_TRUE(Import(options, test::kGoOn).ok());
  EXPECT_LE(ReadIndex(folder_ / "out")->width, 30);
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("out", "photos"));
}

TEST_F(EncodedImportTest, PythonReadsAShard) {
  const std::string python = support::PeersPython();
  if (python.empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  const std::string script = python + " -c \"from safetensors.numpy import load_file; t = load_file('" +
                             folder_ / "out/train/shard_00000.safetensors" +
                             "'); o = t['offsets']; assert bytes(t['bytes'][:o[1]]) == open('" + source_ +
                             "/train/cat/100.png', 'rb').read() and list(t['sizes'][0]) == [20, 60]\"";
  EXPECT_EQ(std::system(script.c_str()), 0);
}

}  // namespace
}  // namespace mtrun::datasets
