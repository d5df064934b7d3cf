// Archives and folders as other tools make them: macOS, GNU tar, WebDataset with several images a sample.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/source_forms.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using test::Entries;
using testing::ElementsAre;
using testing::HasSubstr;

std::string JpegOf(int number) { return test::Encode(".jpg", test::Picture(20, 30, number), 20, 30); }

class ForeignSourcesTest : public testing::Test {
 protected:
  absl::StatusOr<ImportReport> Run(ImportOptions options, const std::string& name) const {
    options.destination = folder_ / name;
    options.store = Store::kEncoded;
    options.threads = 2;
    return Import(options, test::kGoOn);
  }
  std::string ForeignError(const ImportOptions& options) const {
    const auto report = Run(options, "refused");
    EXPECT_FALSE(report.ok());
    return std::string(report.status().message());
  }
  /// Returns the records of a split of a set, in order.
  std::vector<std::string> Records(const std::string& name, const std::string& split = "train") const {
    const auto packed = PackedSplit::Open(folder_ / name, split);
    EXPECT_TRUE(packed.ok()) << packed.status();
    std::vector<std::string> records;
    for (int64_t i = 0; packed.ok() && i < packed->size(); ++i) records.emplace_back(packed->record(i));
    return records;
  }

  const test::TempFolder folder_;
};

/// The digests are those of the importer before it walked class folders, chose fields and passed over hidden
/// files in archives.
TEST_F(ForeignSourcesTest, SetsImportedBeforeKeepTheirDigests) {
  const auto png = [](int i) { return test::Encode(".png", test::Picture(4, 6, i), 4, 6); };
  const char* const splits[] = {"train", "train", "val", "test"};
  for (int i = 0; i < 16; ++i)
    test::Write(
        absl::StrCat(folder_ / "tree/", splits[i % 4], "/", i / 4 % 2 == 0 ? "a" : "b", "/", i, ".png"),
        png(i));
  Entries wrapped, samples;
  for (int i = 0; i < 6; ++i) {
    wrapped.emplace_back(absl::StrCat("set/", i % 2 == 0 ? "a" : "b", "/", i, ".png"), png(i));
    samples.emplace_back(absl::StrCat(i, ".cls"), absl::StrCat(i % 2));
    samples.emplace_back(absl::StrCat(i, ".png"), png(i));
  }
  for (int i = 6; i < 8; ++i) {
    samples.emplace_back(absl::StrCat(i, ".left.png"), png(i));
    samples.emplace_back(absl::StrCat(i, ".json"), absl::StrCat("{\"label\": ", i % 2, "}"));
  }
  test::WriteArchive(folder_ / "wrapped.tar", wrapped);
  test::WriteArchive(folder_ / "samples.tar", samples);
  for (const auto& [name, digest] :
       {std::pair("tree", "73ffdbae3c2b6f9354d1c8051021b5aea040d3a669e908e95aef8584b31e67f6"),
        {"wrapped.tar", "98db3c56851054b137a6f866ff5a1688d6db69b0e9ce155c469685a337ebb552"},
        {"samples.tar", "dcd695e164415081e3c392dc6c28aa6ac897d7952847fc45559d02a6b8280299"}}) {
    const auto report = Import(
        {.source = folder_ / name, .destination = folder_ / (std::string(name) + ".out")}, test::kGoOn);
    ASSERT_TRUE(report.ok()) << name << ": " << report.status();
    EXPECT_EQ(IndexDigest(report->index), digest) << name;
  }
}

TEST_F(ForeignSourcesTest, HiddenFilesOfAMacChangeNoSet) {
  const std::vector<std::string> classes{"n00000003", "n00000001", "n00000002"};
  std::vector<test::Photo> photos;
  for (int i = 0; i < 12; ++i) {
    const std::string split = i < 9 ? "train" : "val", prefix = i < 9 ? classes[i % 3] : "val";
    photos.push_back({.split = split,
                      .name = absl::StrCat(prefix, "_", 100 + i, ".jpg"),
                      .bytes = JpegOf(i),
                      .label = static_cast<size_t>(i) % 3});
  }
  const test::SourceForms plain(photos, classes), mac(photos, classes, /*from_mac=*/true);
  plain.WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "tree"}, "expected").ok());
  const auto expected = test::ReadTree(folder_ / "expected");
  for (const bool skip_bad : {false, true}) {
    for (auto [format, options] : mac.WriteAll(folder_ / "mac")) {
      options.tree.skip_bad = skip_bad;
      const auto report = Run(options, "out");
      ASSERT_TRUE(report.ok()) << options.source << ": " << report.status();
      EXPECT_EQ(report->format, format) << options.source;
      EXPECT_EQ(test::ReadTree(folder_ / "out"), expected) << options.source;
      EXPECT_GT(report->counts.others, 0) << options.source;
      fs::remove_all(folder_ / "out");
    }
    fs::remove_all(folder_ / "mac");
  }
}

TEST_F(ForeignSourcesTest, HiddenFilesOfAMacAreNoImagesWithoutClasses) {
  test::WriteArchive(folder_ / "a.tar", {{"._1.jpg", "x"}, {"1.jpg", JpegOf(1)}, {"__MACOSX/._1.jpg", "x"}});
  const auto report = Run({.source = folder_ / "a.tar", .tree = {.unlabelled = true}}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(Records("out"), ElementsAre(JpegOf(1)));
  EXPECT_EQ(report->counts, (LeftOut{.others = 1}));
}

/// The same tree as a folder and in archives gives the same sentence, whose command works.
TEST_F(ForeignSourcesTest, SplitsUnderOtherNamesHaveACommand) {
  Entries tree;
  for (int i = 0; i < 6; ++i)
    tree.emplace_back(absl::StrCat("set/", i < 4 ? "Training" : "Testing", "/", i % 2, "/", i, ".jpg"),
                      JpegOf(i));
  for (const auto& [name, bytes] : tree) test::Write(folder_ / "in/" + name, bytes);
  for (const char* name : {"in.zip", "in.tar", "in.tar.gz"}) test::WriteArchive(folder_ / name, tree);
  test::Write(folder_ / "usual/train/x", "");
  fs::copy(folder_ / "in/set/Training", folder_ / "usual/train", fs::copy_options::recursive);
  fs::copy(folder_ / "in/set/Testing", folder_ / "usual/test", fs::copy_options::recursive);
  fs::remove(folder_ / "usual/train/x");
  ASSERT_TRUE(Run({.source = folder_ / "usual"}, "expected").ok());
  for (const char* name : {"in", "in.zip", "in.tar", "in.tar.gz"}) {
    const std::string source = folder_ / name;
    EXPECT_EQ(
        ForeignError({.source = source}),
        absl::StrCat(source, ": the splits are called set/Training/ and set/Testing/; import them with: ",
                     "mtdata import ", source, "/set/Training ", folder_ / "refused", " --test_source ",
                     source, "/set/Testing"));
    const auto report =
        Run({.source = source + "/set/Training", .test_source = source + "/set/Testing"}, "out");
    ASSERT_TRUE(report.ok()) << source << ": " << report.status();
    EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / "expected")) << source;
    fs::remove_all(folder_ / "out");
  }
  EXPECT_THAT(ForeignError({.source = folder_ / "in.zip/none"}), HasSubstr("in.zip/none holds no images"));
}

TEST_F(ForeignSourcesTest, InsideOfAClassHasACommand) {
  for (const char* name : {"photos/cat/1.jpg", "photos/dog/2.jpg"}) test::Write(folder_ / name, JpegOf(1));
  test::WriteArchive(folder_ / "cat.zip", {{"1.jpg", JpegOf(1)}});
  const std::string top = fs::canonical(folder_.path()).string();
  const std::string holds = " holds 1 image and no class folders; ";
  EXPECT_EQ(ForeignError({.source = folder_ / "photos/cat/"}),
            absl::StrCat(folder_ / "photos/cat", holds,
                         "if it is one class of several, import all with: mtdata import ", top, "/photos ",
                         folder_ / "refused", ", or without classes: mtdata import ", folder_ / "photos/cat ",
                         folder_ / "refused", " --unlabelled"));
  EXPECT_EQ(ForeignError({.source = folder_ / "cat.zip"}),
            absl::StrCat(folder_ / "cat.zip", holds, "import without classes with: mtdata import ",
                         folder_ / "cat.zip ", folder_ / "refused", " --unlabelled"));
}

TEST_F(ForeignSourcesTest, SampleOfSeveralImagesHasOneToTrainOn) {
  Entries entries;
  for (int i = 0; i < 4; ++i) {
    entries.emplace_back(absl::StrCat(i, ".cls"), absl::StrCat(i % 2));
    entries.emplace_back(absl::StrCat(i, ".depth.jpg"), JpegOf(20 + i));
    entries.emplace_back(absl::StrCat(i, ".jpg"), JpegOf(i));
    entries.emplace_back(absl::StrCat(i, ".seg.jpg"), JpegOf(10 + i));
    entries.emplace_back(absl::StrCat(i, ".txt"), "caption");
  }
  test::WriteArchive(folder_ / "a.tar", entries);
  const ImportOptions plain{.source = folder_ / "a.tar"};
  ASSERT_TRUE(Run(plain, "plain").ok());
  EXPECT_THAT(Records("plain"), ElementsAre(JpegOf(0), JpegOf(2), JpegOf(1), JpegOf(3)));
  const auto chosen = Run({.source = folder_ / "a.tar", .image_fields = {"png", "SEG.jpg"}}, "chosen");
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_THAT(Records("chosen"), ElementsAre(JpegOf(10), JpegOf(12), JpegOf(11), JpegOf(13)));
  const auto named = Run({.source = folder_ / "a.tar", .class_fields = {"txt"}}, "named");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->index.classes, ElementsAre("caption"));
}

/// GNU tar stores a file with several names once, and links for the other names.
TEST_F(ForeignSourcesTest, HardLinksInATarAreTheirFiles) {
  for (const std::string format : {"gnu", "pax", "ustar"}) {
    const std::string in = folder_ / format;
    for (int i = 0; i < 4; ++i) test::Write(absl::StrCat(in, "/train/", i % 2, "/", i, ".jpg"), JpegOf(i));
    fs::create_directories(in + "/val/0");
    for (const char* name : {"/train/1/same.jpg", "/val/0/0.jpg"})
      fs::create_hard_link(in + "/train/0/0.jpg", in + name);
    ASSERT_TRUE(Run({.source = in}, format + "_expected").ok());
    for (const std::string name : {"a.tar", "a.tar.gz"}) {
      const std::string path = absl::StrCat(in, "_", name);
      ASSERT_EQ(std::system(("tar --format=" + format + " -caf " + path + " -C " + in + " .").c_str()), 0);
      const auto report = Run({.source = path}, "out");
      ASSERT_TRUE(report.ok()) << path << ": " << report.status();
      EXPECT_EQ(test::ReadTree(folder_ / "out"), test::ReadTree(folder_ / (format + "_expected"))) << path;
      fs::remove_all(folder_ / "out");
    }
  }
}

TEST_F(ForeignSourcesTest, HardLinksInAWebDatasetAreTheirFiles) {
  const std::string in = folder_ / "in/";
  test::Write(in + "1.jpg", JpegOf(1));
  test::Write(in + "1.cls", "0");
  fs::create_hard_link(in + "1.jpg", in + "2.jpg");
  fs::create_hard_link(in + "1.cls", in + "2.cls");
  ASSERT_EQ(std::system(("cd " + in + " && tar -cf ../a.tar 1.jpg 1.cls 2.jpg 2.cls").c_str()), 0);
  ASSERT_TRUE(Run({.source = folder_ / "a.tar"}, "out").ok());
  EXPECT_THAT(Records("out"), ElementsAre(JpegOf(1), JpegOf(1)));
}

TEST_F(ForeignSourcesTest, LinksOutOfATarAreNamed) {
  const std::string in = folder_ / "in/";
  test::Write(in + "c/1.jpg", JpegOf(1));
  fs::create_hard_link(in + "c/1.jpg", in + "c/2.jpg");
  fs::create_symlink("1.jpg", in + "c/3.jpg");
  ASSERT_EQ(std::system(("cd " + in +
                         " && tar -cf ../a.tar c/1.jpg c/2.jpg c/3.jpg && "
                         "tar --delete -f ../a.tar c/1.jpg")
                            .c_str()),
            0);
  const std::string error = ForeignError({.source = folder_ / "a.tar"});
  EXPECT_THAT(error, HasSubstr("2 bad image files"));
  EXPECT_THAT(error, HasSubstr("c/2.jpg: a link whose target is not in the archive, or a symbolic link"));
}

TEST_F(ForeignSourcesTest, SampleWithoutTheChosenFieldIsNamed) {
  test::WriteArchive(folder_ / "a.tar", {{"x.a.jpg", JpegOf(1)},
                                         {"x.b.jpg", JpegOf(2)},
                                         {"x.cls", "0"},
                                         {"y.a.jpg", JpegOf(3)},
                                         {"y.cls", "0"}});
  EXPECT_THAT(ForeignError({.source = folder_ / "a.tar"}),
              HasSubstr("a.tar/x has both .a.jpg and .b.jpg: choose with --image_field a.jpg"));
  ImportOptions options{.source = folder_ / "a.tar", .image_fields = {"b.jpg"}};
  EXPECT_THAT(ForeignError(options), HasSubstr("a.tar/y has no field b.jpg, only a.jpg, cls; --skip_bad"));
  options.tree.skip_bad = true;
  const auto report = Run(options, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(Records("out"), ElementsAre(JpegOf(2)));
  EXPECT_EQ(report->counts, (LeftOut{.imageless = 1}));
  options.image_fields = {"a.jpg"};
  options.class_fields = {"fine.cls"};
  options.tree.skip_bad = false;
  EXPECT_THAT(ForeignError(options), HasSubstr("a.tar/x has no field fine.cls, only a.jpg, b.jpg, cls"));
  test::Write(folder_ / "photos/cat/1.jpg", JpegOf(1));
  EXPECT_THAT(ForeignError({.source = folder_ / "photos", .image_fields = {"jpg"}}),
              HasSubstr("--image_field and --class_field are for WebDataset archives"));
}

}  // namespace
}  // namespace mtrun::datasets
