// The same images through every kind of source: folder, tar, tar.gz, zip, ImageNet's tar of tars, WebDataset.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/source_forms.h"
#include "tests/support/small_disk.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// In the order of their ILSVRC2012_IDs, which differs from the order of names.
const std::vector<std::string> kClasses{"n00000003", "n00000001", "n00000002"};

using test::Entries;
using test::Photo;

/// Makes 36 JPEGs of 20 to 55 pixels, 9 of them in val, in reverse order.
std::vector<Photo> MakePhotos() {
  std::vector<Photo> photos;
  for (int i = 35; i >= 0; --i) {
    Photo photo{.split = i % 4 == 0 ? "val" : "train", .name = {}, .bytes = {}, .label = size_t(i) % 3};
    photo.name = photo.split == "val" ? absl::StrCat("ILSVRC2012_val_", 10000000 + i, ".jpg")
                                      : absl::StrCat(kClasses[photo.label], "_", 100 + i, ".jpg");
    photo.bytes = test::Encode(".jpg", test::Picture(20 + i, 55 - i, i), 20 + i, 55 - i);
    photos.push_back(photo);
  }
  return photos;
}

class ImageSourcesTest : public testing::Test, protected test::SourceForms {
 protected:
  ImageSourcesTest() : SourceForms(MakePhotos(), kClasses) {}

  absl::StatusOr<ImportReport> Run(ImportOptions options, const std::string& name) const {
    options.destination = folder_ / name;
    if (options.store == Store::kPixels) options.store = Store::kEncoded;
    options.threads = 2;
    options.shard_bytes = 5000;
    return Import(options, test::kGoOn);
  }
  std::string Error(const ImportOptions& options) const {
    const auto report = Run(options, "refused");
    EXPECT_FALSE(report.ok());
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
    return std::string(report.status().message());
  }

  const test::TempFolder folder_;
};

TEST_F(ImageSourcesTest, EveryKindOfSourceGivesTheSameSet) {
  auto sources = WriteAll(folder_.path());
  const ImportOptions plain{.source = folder_ / "tree"};
  ASSERT_TRUE(Run(plain, "expected").ok());
  const auto expected = test::ReadTree(folder_ / "expected");
  const std::string wds = folder_ / "wds/";
  sources.push_back(
      {"webdataset",
       {.source = wds + "{train,val}-{000000..000001}.tar", .class_list = wds + "classes.txt"}});
  test::Write(wds + "val-000001.tar", std::string(1024, '\0'));
  for (const auto& [format, options] : sources) {
    const auto report = Run(options, "out");
    ASSERT_TRUE(report.ok()) << options.source << ": " << report.status();
    EXPECT_EQ(report->format, format) << options.source;
    EXPECT_EQ(report->index.classes, sorted_classes());
    EXPECT_EQ(test::ReadTree(folder_ / "out"), expected) << options.source;
    fs::remove_all(folder_ / "out");
  }
}

TEST_F(ImageSourcesTest, ExtractedImageNetWithAFlatVal) {
  WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "tree"}, "expected").ok());
  WriteImageNet(folder_ / "imagenet");
  fs::create_directories(folder_ / "flat/train");
  fs::copy(folder_ / "tree/train", folder_ / "flat/train", fs::copy_options::recursive);
  std::string lines;
  for (const Photo& photo : photos()) {
    if (photo.split != "val") continue;
    test::Write(folder_ / "flat/val/" + photo.name, photo.bytes);
    absl::StrAppend(&lines, photo.name, " ", kClasses[photo.label], "\n");
  }
  test::Write(folder_ / "val.txt", lines);
  EXPECT_THAT(Error({.source = folder_ / "flat"}), HasSubstr("is not in a class folder"));
  ASSERT_TRUE(Run({.source = folder_ / "flat", .val_labels = folder_ / "val.txt"}, "out").ok());
  EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "expected"));
  // Only the outer archive is unpacked.
  const std::string half = folder_ / "half";
  ASSERT_EQ(
      std::system(("mkdir -p " + half + "/train && tar -xf " + folder_ / "imagenet/ILSVRC2012_img_train.tar" +
                   " -C " + half + "/train && cp -r " + folder_ / "flat/val" + " " + half)
                      .c_str()),
      0);
  ASSERT_TRUE(Run({.source = half, .val_labels = folder_ / "val.txt"}, "out2").ok());
  EXPECT_EQ(test::ReadTree(folder_ / "out2"), test::ReadTree(folder_ / "expected"));
}

TEST_F(ImageSourcesTest, ClassArchivesInTrainNextToTheTarOfVal) {
  WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "tree"}, "expected").ok());
  const std::string half = folder_ / "half";
  WriteImageNet(half);
  ASSERT_EQ(std::system(("cd " + half + " && mkdir train && tar -xf ILSVRC2012_img_train.tar -C train && " +
                         "rm ILSVRC2012_img_train.tar")
                            .c_str()),
            0);
  const auto report = Run({.source = half}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format, "imagenet");
  EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "expected"));
}

TEST_F(ImageSourcesTest, SourceOfOneSplitCanHaveAFolderForIt) {
  WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "tree"}, "expected").ok());
  fs::create_directories(folder_ / "apart/others");
  fs::rename(folder_ / "tree/train", folder_ / "apart/train");
  fs::rename(folder_ / "tree/val", folder_ / "apart/others/validation");
  Entries train, val;
  for (const auto& [name, bytes] : Tree("set/"))
    (name.rfind("set/train/", 0) == 0 ? train : val).emplace_back(name, bytes);
  for (Entries* entries : {&train, &val}) {  // ignored entries do not hide a split folder
    entries->emplace_back("__MACOSX/val/c/._a.jpg", "x");
    entries->emplace_back("README.txt", "x");
  }
  test::WriteArchive(folder_ / "train.zip", train);
  test::WriteArchive(folder_ / "val.tar.gz", val);
  for (const char* source : {"apart", "apart/train", "train.zip"}) {
    for (const char* others : {"apart/others", "apart/others/validation", "val.tar.gz"}) {
      const auto report =
          Run({.source = folder_ / source, .format = "folder", .val_source = folder_ / others}, "out");
      ASSERT_TRUE(report.ok()) << source << ", " << others << ": " << report.status();
      EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "expected"));
      fs::remove_all(folder_ / "out");
    }
  }
}

TEST_F(ImageSourcesTest, ImageNetWithoutLabelsTellsTheMissingFlags) {
  WriteImageNet(folder_ / "in");
  fs::remove_all(folder_ / "in/ILSVRC2012_devkit_t12");
  EXPECT_THAT(Error({.source = folder_ / "in"}), HasSubstr("--val_labels FILE"));
  const auto report = Run({.source = folder_ / "in", .tree = {.unlabelled = true}}, "all");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->index.classes, ElementsAre("image"));
  EXPECT_EQ(report->index.images(), 36);
}

TEST_F(ImageSourcesTest, WebDatasetNumbersKeepTheirOrder) {
  const std::string photo = photos()[0].bytes;
  test::WriteArchive(folder_ / "a.tar",
                     {{"x.jpg", photo}, {"x.cls", "10"}, {"y.jpg", photo}, {"y.cls", "9"}});
  const auto report = Run({.source = folder_ / "a.tar"}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index.classes.size(), 11u);
  const auto train = PackedSplit::Open(folder_ / "out", "train");
  EXPECT_EQ(train->label(0), 9);
  EXPECT_EQ(train->label(1), 10);
}

TEST_F(ImageSourcesTest, WebDatasetErrorsNameTheEntry) {
  const std::string photo = photos()[0].bytes;
  const auto error = [&](const Entries& entries) {
    test::WriteArchive(folder_ / "a.tar", entries);
    return Error({.source = folder_ / "a.tar", .format = "webdataset"});
  };
  EXPECT_THAT(error({{"x.jpg", photo}}), HasSubstr("x.jpg has neither .cls nor .json"));
  EXPECT_THAT(error({{"x.jpg", photo}, {"x.cls", "-1/"}}), HasSubstr("a.tar/x.cls: \"-1/\" cannot be"));
  EXPECT_THAT(error({{"x.jpg", photo}, {"x.json", "{}"}}), HasSubstr("x.json: it has none of"));
  EXPECT_THAT(error({{"x.jpg", photo}, {"x.png", photo}, {"x.cls", "1"}}),
              HasSubstr("a.tar/x has both .jpg and .png: choose with --image_field jpg"));
  EXPECT_THAT(error({{"x.jpg", photo}, {"x.jpg", photo}, {"x.cls", "1"}}), HasSubstr("twice"));
  EXPECT_THAT(Error({.source = folder_ / "t-{0..1}.tar"}), HasSubstr("there is no "));
  EXPECT_THAT(Error({.source = folder_ / "t-{0..1.tar"}), HasSubstr("brace"));
  test::WriteArchive(folder_ / "a.tar",
                     {{"w.jpg", photo}, {"w.cls", "0"}, {"w.jpg", photo}, {"x.jpg", photo}});
  const auto report =
      Run({.source = folder_ / "a.tar", .format = "webdataset", .tree = {.skip_bad = true}}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->counts, (LeftOut{.duplicates = 1, .unlabelled = 1}));
}

TEST_F(ImageSourcesTest, WebDatasetsOutsideAnySplitAreCounted) {
  const Entries sample{{"x.jpg", photos()[0].bytes}, {"x.cls", "1"}};
  for (const char* name : {"train/a.tar", "train/b.tar", "val/a.tar", "Test/a.tar", "Test/b.tar", "c.tar"}) {
    fs::create_directories(fs::path(folder_ / "wds/" + name).parent_path());
    test::WriteArchive(folder_ / "wds/" + name, sample);
  }
  const auto all = Run({.source = folder_ / "wds/"}, "all");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->format, "webdataset");
  EXPECT_EQ(all->counts, (LeftOut{.outside = 3, .outside_folder = "Test"}));
  fs::rename(folder_ / "wds/train", folder_ / "train");
  const auto apart = Run({.source = folder_ / "train", .val_source = folder_ / "wds"}, "apart");
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->counts, (LeftOut{.outside = 3, .outside_folder = "Test"}));
}

TEST_F(ImageSourcesTest, WebDatasetWithSeveralSplitsIsRefusedForOne) {
  const Entries sample{{"x.jpg", photos()[0].bytes}, {"x.cls", "1"}};
  for (const char* name :
       {"wds/train/a.tar", "wds/val/a.tar", "wds/more/a.tar", "flat/train-0.tar", "flat/val-0.tar"}) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    test::WriteArchive(folder_ / name, sample);
  }
  for (const std::string source : {"wds", "flat", "flat/{train,val}-0.tar"})
    EXPECT_THAT(Error({.source = folder_ / source, .test_source = folder_ / "wds/more"}),
                HasSubstr("archives of train and val, but is given for train only"))
        << source;
  EXPECT_THAT(Error({.source = folder_ / "wds/more", .val_source = folder_ / "wds"}),
              HasSubstr("is given for val only"));
  const auto report = Run({.source = folder_ / "wds/train", .val_source = folder_ / "wds/val"}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index.images(), 2);
}

TEST_F(ImageSourcesTest, ImagesWithoutClassesCanBeAtAnyDepth) {
  const std::string photo = photos()[0].bytes;
  for (const char* name : {"1.jpg", "2020/2.jpg", "2020/01/02/3.jpg", "2020/01/02/a/b/c/d/4.jpg"})
    test::Write(folder_ / "in/" + name, photo);
  const auto report = Run({.source = folder_ / "in", .tree = {.unlabelled = true}}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index.images(), 4);
  fs::create_directory_symlink("..", folder_ / "in/2020/01/02/back");
  EXPECT_THAT(Error({.source = folder_ / "in", .tree = {.unlabelled = true, .skip_bad = true}}),
              HasSubstr("02/back/ is nested too deeply, or is a link to a folder"));
}

TEST_F(ImageSourcesTest, ArchivesWithoutClassesForDiffusion) {
  for (const std::string name : {"flat.tar", "flat.zip"}) {
    test::WriteArchive(folder_ / name, Of("train"));
    EXPECT_THAT(Error({.source = folder_ / name}), HasSubstr("holds 27 images and no class folders"));
    const auto report = Run({.source = folder_ / name, .tree = {.unlabelled = true}}, name + ".out");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->index.images(), 27);
  }
  EXPECT_EQ(test::ReadTree(folder_ / "flat.tar.out"), test::ReadTree(folder_ / "flat.zip.out"));
  for (const auto& [name, bytes] : Of("train")) test::Write(folder_ / "flat/" + name, bytes);
  ASSERT_TRUE(Run({.source = folder_ / "flat", .tree = {.unlabelled = true}}, "out").ok());
  EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "flat.zip.out"));
}

TEST_F(ImageSourcesTest, BadFilesInEveryKindOfArchive) {
  Entries entries = Tree("");
  const std::string good = entries[1].second;
  entries.emplace_back("train/n00000001/cut.jpg", good.substr(0, good.size() / 2));
  entries.emplace_back("train/n00000001/empty.jpg", "");
  entries.emplace_back("train/n00000001/text.jpg", "not an image");
  entries.emplace_back("train/n00000001/Thumbs.db", "x");
  entries.emplace_back("train/n00000001/.DS_Store", "x");
  entries.emplace_back("train/n00000001/suffix.png", good);  // a JPEG by its bytes
  entries.emplace_back("val/unicorn/1.jpg", good);
  entries.emplace_back(entries[1]);
  for (const std::string name : {"bad.tar", "bad.tar.gz", "bad.zip"}) {
    test::WriteArchive(folder_ / name, entries);
    EXPECT_THAT(Error({.source = folder_ / name}), HasSubstr("unicorn"));
    const auto report = Run({.source = folder_ / name, .tree = {.skip_bad = true}}, name + ".out");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->index.images(), 37) << name;
    EXPECT_EQ(report->left_out.size(), 3u);
    EXPECT_EQ(report->counts,
              (LeftOut{.others = 2, .duplicates = 1, .untrained = 1, .untrained_classes = {"unicorn"}}));
    EXPECT_EQ(test::ReadTree(folder_ / (name + ".out")), test::ReadTree(folder_ / "bad.tar.out"));
  }
}

TEST_F(ImageSourcesTest, OnlyTheDamagedImageOfAPipedZipIsReported) {
  for (int i = 0; i < 2; ++i)
    test::Write(absl::StrCat(folder_ / "in/train/c/", i, ".png"),
                test::Encode(".png", test::Picture(20, 20, i), 20, 20));
  const std::string script =
      "cd " + folder_ / "in" +
      " && python3 -c \""
      "import zipfile,sys\n"
      "z = zipfile.ZipFile(sys.stdout.buffer, 'w', zipfile.ZIP_DEFLATED)\n"
      "z.write('train/c/0.png'); z.write('train/c/1.png'); z.close()\" | cat > ../piped.zip";
  ASSERT_EQ(std::system(script.c_str()), 0);
  std::string bytes = test::Read(folder_ / "piped.zip");
  const size_t behind_first = bytes.find("PK\7\10");  // the position of its checksum and lengths
  ASSERT_NE(behind_first, std::string::npos);
  bytes[behind_first + 4] ^= 1;
  test::Write(folder_ / "piped.zip", bytes);
  EXPECT_THAT(Error({.source = folder_ / "piped.zip"}),
              AllOf(HasSubstr("train/c/0.png"), HasSubstr("nothing was imported; --skip_bad")));
  const auto report = Run({.source = folder_ / "piped.zip", .tree = {.skip_bad = true}}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index.images(), 1);
  EXPECT_EQ(report->left_out.size(), 1u);
}

TEST_F(ImageSourcesTest, FullDiskEndsAnImportThatCanBeResumed) {
  test::WriteArchive(folder_ / "a.tar", Tree(""));
  WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "a.tar"}, "expected").ok());
  const auto disk = support::SmallDisk::Make(folder_ / "disk", 40 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  (*disk)->Fill();
  ImportOptions options{.source = folder_ / "a.tar"};
  options.rules.short_side = 1000;  // the size is not known ahead
  const auto full = Run(options, "disk/out");
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_FALSE(fs::exists(folder_ / "disk/out"));
  (*disk)->Free();
  ASSERT_TRUE(Run(options, "disk/out").ok());
  EXPECT_EQ(test::ReadTree(folder_ / "disk/out"), test::ReadTree(folder_ / "expected"));
}

}  // namespace
}  // namespace mtrun::datasets
