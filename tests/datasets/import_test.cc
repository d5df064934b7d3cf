#include "datasets/import/import.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "base/posix.h"
#include "datasets/images/resample.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// Images in train: 2 classes with 15 images of 8x8 each, JPEG and PNG; in test: 4 of each.
class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    int number = 0;
    for (const char* split : {"train", "test"}) {
      for (const char* name : {"cat", "dog"}) {
        for (int i = 0; i < (split == std::string("train") ? 15 : 4); ++i) {
          const std::string extension = i % 2 == 0 ? ".png" : ".jpg";
          test::Write(source_ + "/" + split + "/" + name + "/" + std::to_string(i) + extension,
                      test::Encode(extension, test::Picture(8, 8, number++), 8, 8));
        }
      }
    }
  }

  ImportOptions Options(const std::string& destination, int threads = 2) const {
    return {.source = source_, .destination = folder_ / destination, .threads = threads, .shard_bytes = 2000};
  }
  std::string ErrorOf(const ImportOptions& options) const {
    const auto report = Import(options, test::kGoOn);
    EXPECT_FALSE(report.ok());
    return std::string(report.status().message());
  }

  const test::TempFolder folder_;
  const std::string source_ = folder_ / "photos";
};

TEST_F(ImportTest, TheNumberOfThreadsDoesNotMatter) {
  const auto one = Import(Options("one", 1), test::kGoOn);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->format, "folder");
  EXPECT_EQ(one->index.images(), 38);
  ASSERT_TRUE(Import(Options("eight", 8), test::kGoOn).ok());
  EXPECT_EQ(test::ReadTree(folder_ / "one"), test::ReadTree(folder_ / "eight"));
}

TEST_F(ImportTest, ImagesAreInTheOrderOfTheirNames) {
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  const auto train = PackedSplit::Open(folder_ / "out", "train", true);
  ASSERT_TRUE(train.ok());
  EXPECT_EQ(train->size(), 30);
  EXPECT_THAT(train->image(0), testing::ElementsAreArray(test::Picture(8, 8, 0)));  // cat/0.png
  EXPECT_THAT(train->image(2),
              testing::ElementsAreArray(test::Picture(8, 8, 10)));  // cat/10.png, after 1.jpg
  EXPECT_THAT(train->image(15), testing::ElementsAreArray(test::Picture(8, 8, 15)));  // dog/0.png
  EXPECT_EQ(train->label(14), 0);
  EXPECT_EQ(train->label(15), 1);
}

TEST_F(ImportTest, ArchiveInAnyOrderGivesTheSameBytes) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, bytes] : test::ReadTree(source_))
    entries.insert(entries.begin(), {"./set/" + name, bytes});
  entries.emplace_back("./set/README", "not an image");
  test::WriteTarGz(folder_ / "photos.tar.gz", entries);
  ASSERT_TRUE(Import(Options("a"), test::kGoOn).ok());
  ImportOptions options = Options("b", 3);
  options.source = folder_ / "photos.tar.gz";
  const auto report = Import(options, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(test::ReadTree(folder_ / "a"), test::ReadTree(folder_ / "b"));
}

TEST_F(ImportTest, TruncatedArchiveLeavesNothing) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, bytes] : test::ReadTree(source_)) entries.emplace_back(name, bytes);
  test::WriteTarGz(folder_ / "photos.tar.gz", entries);
  const std::string whole = test::Read(folder_ / "photos.tar.gz");
  test::Write(folder_ / "photos.tar.gz", whole.substr(0, whole.size() / 2));
  ImportOptions options = Options("out");
  options.source = folder_ / "photos.tar.gz";
  EXPECT_THAT(ErrorOf(options), HasSubstr("truncated"));
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("photos", "photos.tar.gz"));
}

TEST_F(ImportTest, BadFilesAreListedAndNothingIsImported) {
  test::Write(source_ + "/train/cat/3.jpg", "not an image");
  const std::string jpeg = test::Read(source_ + "/test/dog/1.jpg");
  test::Write(source_ + "/test/dog/1.jpg", jpeg.substr(0, jpeg.size() - 30));
  const std::string error = ErrorOf(Options("out"));
  EXPECT_THAT(error, HasSubstr("2 bad image files"));
  EXPECT_THAT(error, HasSubstr("train/cat/3.jpg: not a JPEG or PNG image"));
  EXPECT_THAT(error, HasSubstr("test/dog/1.jpg: truncated JPEG"));
  EXPECT_THAT(error, HasSubstr("--skip_bad"));
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("photos"));
}

TEST_F(ImportTest, DeviceIsNotRead) {
  fs::remove(source_ + "/train/cat/3.jpg");
  fs::create_symlink("/dev/null", source_ + "/train/cat/3.jpg");
  EXPECT_THAT(ErrorOf(Options("out")), HasSubstr("train/cat/3.jpg: a device, not a file"));
}

TEST_F(ImportTest, PipeIsReadUpToTheFileLimit) {
  const std::string path = source_ + "/train/cat/3.jpg";
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto before = signal(SIGPIPE, SIG_IGN);
  std::thread writer([&] {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 257 && WriteAll(fd.get(), piece).ok(); ++i) {
    }
  });
  EXPECT_THAT(ErrorOf(Options("out")), HasSubstr("train/cat/3.jpg: larger than 256 MiB"));
  writer.join();
  signal(SIGPIPE, before);
}

TEST_F(ImportTest, ListOfBadFilesIsCapped) {
  for (int i = 0; i < 30; ++i) test::Write(source_ + "/train/cat/x" + std::to_string(i), "no");
  EXPECT_THAT(ErrorOf(Options("out")), HasSubstr("and 10 more"));
}

TEST_F(ImportTest, SkipBadEqualsAFolderWithoutThem) {
  ASSERT_TRUE(Import(Options("clean"), test::kGoOn).ok());
  test::Write(source_ + "/train/cat/00.jpg", "not an image");
  test::Write(source_ + "/test/dog/zz.png", "");
  ImportOptions options = Options("out");
  options.tree.skip_bad = true;
  const auto report = Import(options, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->left_out, SizeIs(2));
  EXPECT_EQ(report->left_out[0].path, "test/dog/zz.png");
  EXPECT_EQ(report->left_out[1].path, "train/cat/00.jpg");
  EXPECT_EQ(test::ReadTree(folder_ / "clean"), test::ReadTree(folder_ / "out"));
}

TEST_F(ImportTest, EmptyTrainSplitIsAnError) {
  fs::remove_all(source_ + "/train");
  test::Write(source_ + "/train/cat/1.jpg", "no");
  test::Write(source_ + "/train/dog/1.jpg", "no");
  ImportOptions options = Options("out");
  options.tree.skip_bad = true;
  EXPECT_THAT(ErrorOf(options), HasSubstr("no images to train on"));
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("photos"));
}

TEST_F(ImportTest, MixedSizesNeedAResize) {
  test::Write(source_ + "/train/dog/7.jpg", test::Encode(".jpg", test::Picture(9, 8, 1), 9, 8));
  const std::string error = ErrorOf(Options("out"));
  EXPECT_THAT(error, HasSubstr("train/dog/7.jpg is 9x8"));
  EXPECT_THAT(error, HasSubstr("--resize"));
  ImportOptions options = Options("out");
  options.rules.stretch = ImageSize{4, 5};
  const auto report = Import(options, test::kGoOn);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index.height, 4);
  EXPECT_EQ(report->index.width, 5);
  const auto train = PackedSplit::Open(folder_ / "out", "train", true);
  ASSERT_TRUE(train.ok());
  const RgbImage expected = ResizeImage({{8, 8}, test::Picture(8, 8, 0)}, {4, 5});
  EXPECT_THAT(train->image(0), testing::ElementsAreArray(expected.pixels));
}

TEST_F(ImportTest, ExistingDestinationIsKeptUnlessReplaced) {
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  const auto before = test::ReadTree(folder_ / "out");
  test::Write(source_ + "/train/dog/99.png", test::Encode(".png", test::Picture(8, 8, 3), 8, 8));
  EXPECT_THAT(ErrorOf(Options("out")), HasSubstr("exists"));
  EXPECT_EQ(test::ReadTree(folder_ / "out"), before);

  ImportOptions options = Options("out");
  options.replace = true;
  test::Write(source_ + "/train/dog/98.png", "bad");
  ErrorOf(options);
  EXPECT_EQ(test::ReadTree(folder_ / "out"), before);
  fs::remove(source_ + "/train/dog/98.png");
  ASSERT_TRUE(Import(options, test::kGoOn).ok());
  EXPECT_EQ(PackedSplit::Open(folder_ / "out", "train")->size(), 31);
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("out", "photos"));
}

TEST_F(ImportTest, ReplacingRemovesOnlyFilesOfASet) {
  ImportOptions options = Options("out");
  options.replace = true;
  test::Write(folder_ / "out/index.json", "{\"pages\": []}");
  test::Write(folder_ / "out/train/cat/1.jpg", "years of work");
  EXPECT_THAT(ErrorOf(options), HasSubstr("not a packed data set"));
  fs::remove_all(folder_ / "out");
  ASSERT_TRUE(Import(options, test::kGoOn).ok());
  for (const std::string name :
       {"docs/thesis.txt", "Docs", "notes.txt", "train/cat.jpg", "train/shard_1.safetensors", ".hidden",
        "train/shard_00000.safetensors.old", "index.json.mine.new"}) {
    test::Write(folder_ / "out/" + name, "years of work");
    EXPECT_THAT(ErrorOf(options), HasSubstr("would also remove " + (folder_ / "out/" + name) + ";"));
    EXPECT_EQ(test::Read(folder_ / "out/" + name), "years of work");
    fs::remove(folder_ / "out/" + name);
  }
  fs::create_directories(folder_ / "out/train/shard_00009.safetensors");
  EXPECT_THAT(ErrorOf(options), HasSubstr("shard_00009.safetensors; move that away"));
  fs::remove(folder_ / "out/train/shard_00009.safetensors");
  std::string index = test::Read(folder_ / "out/index.json");
  index.replace(index.find("\"cat\""), 5, "\"cow\"");  // damaged, and still ours
  test::Write(folder_ / "out/index.json", index);
  for (const char* left : {".lock", "index.json.77-0.new", "train/shard_00007.safetensors.part",
                           "test/shard_00007.safetensors.state.77-1.new"})  // by killed imports
    test::Write(folder_ / "out/" + left, "");
  EXPECT_TRUE(Import(options, test::kGoOn).ok());
}

TEST_F(ImportTest, SourceInsideTheDestinationIsRefused) {
  ASSERT_TRUE(Import(Options("out"), test::kGoOn).ok());
  fs::create_directories(folder_ / "out/src");
  fs::copy(source_, folder_ / "out/src", fs::copy_options::recursive);
  fs::create_directory_symlink(folder_ / "out", folder_ / "link");
  test::Write(folder_ / "out/a-0.tar", "x");
  const auto before = test::ReadTree(folder_ / "out");
  for (const std::string source :
       {"out/src", "out", "out/src/../src/train/..", "link/src", "out/a-{0..1}.tar"}) {
    for (const bool replace : {true, false}) {
      for (std::string ImportOptions::*place :
           {&ImportOptions::source, &ImportOptions::val_source, &ImportOptions::test_source}) {
        ImportOptions options = Options("out");
        options.replace = replace;
        options.*place = folder_ / source;
        EXPECT_THAT(ErrorOf(options), HasSubstr(folder_ / source + " is the destination ")) << source;
      }
    }
  }
  EXPECT_EQ(test::ReadTree(folder_ / "out"), before);
  ImportOptions beside = Options("out-packed");  // a name with the same prefix is another folder
  beside.source = folder_ / "out/src";
  EXPECT_TRUE(Import(beside, test::kGoOn).ok());
}

TEST_F(ImportTest, CancellingLeavesNothing) {
  const std::atomic<bool> cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(Import(Options("out"), cancelled).status()));
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("photos"));
}

TEST_F(ImportTest, DetectsFormats) {
  EXPECT_EQ(*DetectFormat(source_), "folder");
  EXPECT_TRUE(absl::IsNotFound(DetectFormat(folder_ / "none").status()));
  test::Write(folder_ / "a.rar", "Rar");
  EXPECT_THAT(std::string(DetectFormat(folder_ / "a.rar").status().message()),
              HasSubstr("neither a folder nor an archive"));
  test::Write(folder_ / "a.zip", "PK");
  EXPECT_THAT(std::string(DetectFormat(folder_ / "a.zip").status().message()),
              HasSubstr("neither a tar nor a zip"));
  test::Write(folder_ / "text/a.txt", "x");
  EXPECT_THAT(std::string(DetectFormat(folder_ / "text").status().message()),
              HasSubstr("text holds no images and no known data set; mtdata import --help"));
  test::Write(folder_ / "packed/b.zip", "x");
  test::Write(folder_ / "packed/a b.tar", "x");
  EXPECT_THAT(std::string(DetectFormat(folder_ / "packed").status().message()),
              HasSubstr("packed holds no images, but 2 archives; import one with: mtdata import '" +
                        folder_ / "packed/a b.tar' DEST"));
  test::Write(folder_ / "py/data_batch_1", "x");
  EXPECT_THAT(std::string(DetectFormat(folder_ / "py").status().message()), HasSubstr("Python version"));
  test::WriteTarGz(folder_ / "py.tar.gz", {{"cifar-10-batches-py/data_batch_1", "x"}});
  EXPECT_THAT(std::string(DetectFormat(folder_ / "py.tar.gz").status().message()),
              HasSubstr("Python version"));
  test::Write(folder_ / "idx/train-images-idx3-ubyte.gz", "x");
  EXPECT_EQ(*DetectFormat(folder_ / "idx"), "idx");
  test::Write(folder_ / "bin/data_batch_1.bin", "x");
  EXPECT_EQ(*DetectFormat(folder_ / "bin"), "cifar");
}

}  // namespace
}  // namespace mtrun::datasets
