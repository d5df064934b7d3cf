// Tests the real program: exit status, messages, and that a killed import leaves nothing complete-looking.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "base/posix.h"
#include "base/token.h"
#include "base/version.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "datasets/import/importers.h"
#include "datasets/packed/index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

extern char** environ;

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Returns the path of this build's mtdata: in MT_BIN if that is set, otherwise beside the tests.
std::string Mtdata() {
  const char* bin = std::getenv("MT_BIN");
  return (bin != nullptr ? std::string(bin) : *ExecutableFolder() + "/../bin") + "/mtdata";
}

class MtdataTest : public testing::Test {
 protected:
  pid_t Start(std::vector<std::string> args) { return Start(std::move(args), folder_ / "stdout"); }
  pid_t Start(std::vector<std::string> args, const std::string& out) {
    args.insert(args.begin(), Mtdata());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  /// Returns the exit status, or -signal if a signal ended it.
  int Wait(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    out_ = test::Read(folder_ / "stdout");
    err_ = test::Read(folder_ / "stderr");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Run(const std::vector<std::string>& args) { return Wait(Start(args)); }

  void WriteImages(const std::string& folder) {
    for (int i = 0; i < 6; ++i) {
      test::Write(folder + "/train/" + (i % 2 ? "a" : "b") + "/" + std::to_string(i) + ".png",
                  test::Encode(".png", test::Picture(4, 4, i), 4, 4));
    }
    test::Write(folder + "/val/a/9.png", test::Encode(".png", test::Picture(4, 4, 9), 4, 4));
  }

  const test::TempFolder folder_;
  std::string out_, err_;
};

TEST_F(MtdataTest, ImportsAndInspects) {
  WriteImages(folder_ / "in");
  ASSERT_EQ(Run({"import", folder_ / "in", "--threads=2", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("4x4x3 uint8 RGB"), HasSubstr("imported 7 images (folder)")));
  ASSERT_EQ(Run({"info", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("verified")));
  ASSERT_EQ(Run({"info", "--verify", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("digest"), HasSubstr("verified")));
}

TEST_F(MtdataTest, TurnsPhotographsAndSaysHowMany) {
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32);
  const std::string jpeg = EncodeJpeg({{20, 30}, test::Picture(20, 30, 1)}, 90);
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "test/a/3.jpg"})
    test::Write(folder_ / "in" + "/" + name,
                jpeg.substr(0, 2) + "\xFF\xE1" + std::string("\0\x22", 2) + exif + jpeg.substr(2));
  const auto orientation = [&](const std::string& set) { return ReadIndex(folder_ / set)->orientation; };
  for (const std::string store : {"encoded", "pixels"}) {
    ASSERT_EQ(Run({"import", folder_ / "in", folder_ / store, "--store=" + store}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("3 turned upright, as their EXIF orientation says"));
    EXPECT_EQ(orientation(store), kTurnedUpright);
    EXPECT_EQ(ReadIndex(folder_ / store)->height, 30);
  }
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "stored", "--exif=false", "--store=encoded"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("3 kept as stored, though they have an EXIF orientation"));
  EXPECT_EQ(orientation("stored"), kAsStored);
  EXPECT_EQ(ReadIndex(folder_ / "stored")->height, 20);
}

TEST_F(MtdataTest, PrintsItsVersion) {
  ASSERT_EQ(Run({"--version"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("mtdata " + Version() + " (commit "));
}

TEST_F(MtdataTest, TruncatedOutputIsAFailure) {
  WriteImages(folder_ / "in");
  test::Write(folder_ / "token", MakeToken());
  fs::permissions(folder_ / "token", fs::perms::owner_read);
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--store", "encoded"}), 0) << err_;
  const std::vector<std::vector<std::string>> questions = {
      {"--help"},
      {"--version"},
      {"info", folder_ / "out"},
      {"info", "--verify", folder_ / "out"},
      {"verify", folder_ / "out"},
      {"show", folder_ / "out", "--png", folder_ / "a.png"},
      {"key", "--token_file", folder_ / "token"},
      {"bearer", "--token_file", folder_ / "token"}};
  for (const auto& question : questions) {
    EXPECT_EQ(Wait(Start(question, "/dev/full")), 1) << question[0];
    EXPECT_EQ(err_, "mtdata: write to standard output: No space left on device\n") << question[0];
  }
}

TEST_F(MtdataTest, KeepsFilesAndVerifiesThem) {
  WriteImages(folder_ / "in");
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--store=encoded", "--short_side=3"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("3x3 to 3x3, JPEG and PNG files"));
  ASSERT_EQ(Run({"verify", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("every image decodes"));
  const std::string shard = folder_ / "out/train/shard_00000.safetensors";
  std::string bytes = test::Read(shard);
  bytes.back() ^= 1;
  test::Write(shard, bytes);
  EXPECT_EQ(Run({"verify", folder_ / "out"}), 1);
  EXPECT_THAT(err_, HasSubstr("SHA-256"));
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "x", "--store=pixels", "--short_side=3"}), 1);
  EXPECT_THAT(err_, HasSubstr("--store pixels"));
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "x", "--resize=3", "--short_side=3"}), 2);
}

TEST_F(MtdataTest, InfoDetectsDamage) {
  WriteImages(folder_ / "in");
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "out"}), 0) << err_;
  const std::string shard = folder_ / "out/train/shard_00000.safetensors";
  std::string bytes = test::Read(shard);
  bytes.back() ^= 1;
  test::Write(shard, bytes);
  EXPECT_EQ(Run({"info", folder_ / "out", "--verify"}), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr(shard), HasSubstr("SHA-256")));
  EXPECT_EQ(Run({"info", folder_ / "in"}), 1);
  EXPECT_THAT(err_, HasSubstr("not a packed data set"));
}

TEST_F(MtdataTest, AdviceForAFolderOfImagesWorks) {
  for (const std::string folder : {"my 'photos'", "plain"}) {
    for (int i = 0; i < 40; ++i)
      test::Write(folder_ / folder + "/cat/" + std::to_string(i) + ".png",
                  test::Encode(".png", test::Picture(4, 4, i % 6), 4, 4));
    EXPECT_EQ(Run({"info", folder_ / folder + "/"}), 1);
    const std::string before = "pack them with: mtdata ", after = " and give ";
    const size_t begin = err_.find(before), end = err_.find(after);
    ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << err_;
    const std::string args = err_.substr(begin + before.size(), end - begin - before.size());
    EXPECT_EQ(std::system((Mtdata() + " " + args + " > /dev/null").c_str()), 0) << args;
    EXPECT_EQ(Run({"info", folder_ / folder + "-packed"}), 0) << err_;
    EXPECT_THAT(out_, AllOf(HasSubstr("\ntest "), HasSubstr("\ntrain ")));
  }
  test::Write(folder_ / "plain.tar", "x");
  EXPECT_EQ(Run({"info", folder_ / "plain.tar"}), 1);
  EXPECT_THAT(err_, HasSubstr("mtdata import " + (folder_ / "plain.tar") + " "));
}

TEST_F(MtdataTest, OmittedFilesAreCountedByReason) {
  WriteImages(folder_ / "in");
  test::Write(folder_ / "in/train/a/Thumbs.db", "x");
  test::Write(folder_ / "in/train/a/cut.png", "x");
  test::Write(folder_ / "in/val/unicorn/1.png", "x");
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out"}), 1);
  EXPECT_THAT(err_, HasSubstr("unicorn"));
  for (const std::string store : {"pixels", "encoded"}) {
    ASSERT_EQ(Run({"import", folder_ / "in", folder_ / store, "--skip_bad", "--store=" + store}), 0) << err_;
    EXPECT_THAT(
        out_, AllOf(HasSubstr("imported 7 images"), HasSubstr("\nbad image                              1\n"),
                    HasSubstr("\nnot an image by its name               1\n"),
                    HasSubstr("\nclass missing in train                 1  unicorn\n")));
    EXPECT_THAT(err_, HasSubstr("left out train/a/cut.png"));
  }
}

TEST_F(MtdataTest, FilesOutsideTheFoldersAreCounted) {
  WriteImages(folder_ / "in");
  const std::string image = test::Encode(".png", test::Picture(4, 4, 1), 4, 4);
  for (const char* name : {"Test/b/1.png", "Test/a/2.png", "Test/a/deep/er/3.png", "z.png", ".git/x/4.png"})
    test::Write(folder_ / "in/" + name, image);
  test::Write(folder_ / "in/README.md", "x");
  test::Write(folder_ / "in/raw/notes.txt", "x");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, bytes] : test::ReadTree(folder_ / "in")) entries.emplace_back(name, bytes);
  test::WriteArchive(folder_ / "in.tar", entries);
  test::WriteArchive(folder_ / "in.zip", entries);
  for (const char* source : {"in", "in.tar", "in.zip"}) {
    ASSERT_EQ(Run({"import", folder_ / source, folder_ / source + std::string(".out")}), 0) << err_;
    EXPECT_THAT(out_, AllOf(HasSubstr("imported 7 images"), HasSubstr(", 6 left out\n"),
                            HasSubstr("\nnot an image by its name                            2\n"),
                            HasSubstr("\noutside of the split or class folders               4  Test/a\n")))
        << source;
  }
  ASSERT_EQ(Run({"import", folder_ / "in/train", folder_ / "out", "--val_source", folder_ / "in"}), 1);
  fs::remove_all(folder_ / "in/val");
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "apart", "--test_source", folder_ / "in/train"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("\noutside of the split or class folders               4  Test/a\n"));
}

TEST_F(MtdataTest, LinkOutsideTheFoldersIsOneEntry) {
  WriteImages(folder_ / "in");
  fs::create_directory_symlink("train", folder_ / "in/latest");
  fs::create_directory_symlink("/", folder_ / "in/up");
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\noutside of the split or class folders               2  .\n"));
}

TEST_F(MtdataTest, LooseImagesNextToClassFoldersAreCounted) {
  const std::string image = test::Encode(".png", test::Picture(4, 4, 1), 4, 4);
  test::WriteArchive(folder_ / "in.tar", {{"a/1.png", image}, {"b/2.png", image}, {"loose.png", image}});
  ASSERT_EQ(Run({"import", folder_ / "in.tar", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\noutside of the split or class folders               1  .\n"));
}

TEST_F(MtdataTest, ArchiveFileNamesArePrintedWithoutControlCharacters) {
  const std::string image = test::Encode(".png", test::Picture(4, 4, 1), 4, 4);
  const std::string bad = "\x1B[2Jx\nall is well", shown = "\\x1b[2Jx\\nall is well";
  const auto import = [&](const std::vector<std::pair<std::string, std::string>>& entries,
                          std::vector<std::string> more = {}) {
    for (const std::string name : {"in.tar", "in.zip"}) {
      test::WriteArchive(folder_ / name, entries);
      std::vector<std::string> args{"import", folder_ / name, folder_ / name + ".out", "--force"};
      args.insert(args.end(), more.begin(), more.end());
      Run(args);
      EXPECT_THAT(err_ + out_, AllOf(HasSubstr(shown), Not(HasSubstr("\x1B")), Not(HasSubstr("\nall"))));
    }
  };
  import({{ "train/" + bad + "/1.png", image }});                                     // a class
  import({{"train/a/1.png", image}, { "train/a/" + bad, "x" }});                      // a bad file
  import({{"train/a/1.png", image}, { "train/a/" + bad, "x" }}, {"--skip_bad"});      // left out
  import({{ "train/" + bad, image }});                                                // in no class folder
  import({{ "train/" + bad + "/b/1.png", image }});                                   // only class
  import({{bad + "/Training/a/1.png", image}, { bad + "/Testing/a/1.png", image }});  // splits by other names
  import({{"x.a.jpg", image}, {"x." + bad + ".jpg", image}, { "x.cls", "1" }}, {"--format=webdataset"});
  import({{"train/a/1.png", image}, {"train/a/" + bad, image}, { "train/a/" + bad, image }});  // twice
  import({{"train/a/1.png", image}, { "val/" + bad + "/1.png", image }});                      // untrained
  import({{"train/a/1.png", image}, { "val/" + bad + "/1.png", image }}, {"--skip_bad"});
  import({{"train/a/1.png", image}, { bad + "/train/a/1.png", image }});  // two trees
  import({{"train/a/1.png", image}, { bad + "/1.png", image }});          // outside
  const std::string large = test::Encode(".png", test::Picture(5, 5, 1), 5, 5);
  import({{"train/a/1.png", image}, { "train/a/" + bad, large }}, {"--store=pixels"});  // another size
  import({{bad + ".jpg", image}, {"x.jpg", image}, { "x.cls", "1" }}, {"--format=webdataset"});
  import({{bad + ".tar", "no archive"}, { "train/a/1.png", image }});
}

TEST_F(MtdataTest, UrlInPlaceOfAFolderGetsAdvice) {
  EXPECT_EQ(Run({"info", "https://host:8443/photos"}), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("https://host:8443/photos is on a server"),
                          HasSubstr("mtdata fetch https://host:8443/photos"), Not(HasSubstr("import"))));
  EXPECT_EQ(Run({"info", folder_ / "no such folder"}), 1);
  EXPECT_THAT(err_, HasSubstr("mtdata import SOURCE '" + (folder_ / "no such folder") + "'\n"));
  fs::create_directory(folder_ / "an empty one");
  EXPECT_EQ(Run({"info", folder_ / "an empty one"}), 1);
  EXPECT_THAT(err_, HasSubstr("mtdata import SOURCE '" + (folder_ / "an empty one") + "'\n"));
}

TEST_F(MtdataTest, InfoCountsSizesAndFormatsOfFiles) {
  WriteImages(folder_ / "in");
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--store=encoded"}), 0) << err_;
  ASSERT_EQ(Run({"info", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(out_,
              AllOf(HasSubstr("\nbelow 32                   7         100.0 %  ####"),
                    HasSubstr("\nPNG                        7"), HasSubstr("smallest          median")));
  ASSERT_EQ(Run({"import", folder_ / "in", folder_ / "pixels", "--store=pixels"}), 0) << err_;
  ASSERT_EQ(Run({"info", folder_ / "pixels"}), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("shorter side")));
}

TEST_F(MtdataTest, ShowDrawsASheetOfBothKindsOfSet) {
  WriteImages(folder_ / "in");
  for (const std::string store : {"encoded", "pixels"}) {
    const std::string set = folder_ / store, png = folder_ / (store + ".png");
    ASSERT_EQ(Run({"import", folder_ / "in", set, "--store=" + store}), 0) << err_;
    ASSERT_EQ(Run({"show", set, "--png", png, "--count=4"}), 0) << err_;
    EXPECT_THAT(out_,
                AllOf(HasSubstr(" row  column         image  class\n   1       1             0  "),
                      HasSubstr("\n   2       2             4  "), HasSubstr("4 of the 6 images of train")));
    const auto picture = DecodePng(test::Read(png));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->size, (ImageSize{198, 198}));
  }
  const std::string set = folder_ / "pixels";
  ASSERT_EQ(Run({"show", set, "--png", folder_ / "val.png", "--split=val"}), 0) << err_;
  EXPECT_EQ(Run({"show", set}), 2);
  EXPECT_THAT(err_, HasSubstr("--png"));
  EXPECT_EQ(Run({"show", set, "--png=" + (folder_ / "x.png"), "--count=0"}), 2);
  EXPECT_EQ(Run({"show", set, "--png=" + (folder_ / "x.png"), "--split=test"}), 1);
  EXPECT_THAT(err_, HasSubstr("it has: train, val; import it again with --test_share 0.2"));
  EXPECT_EQ(Run({"show", folder_ / "in", "--png=" + (folder_ / "x.png")}), 1);
  EXPECT_THAT(err_, HasSubstr("not a packed data set"));
  EXPECT_EQ(Run({"show", set, "--png=" + (folder_ / "none/x.png")}), 1);
  EXPECT_THAT(err_, HasSubstr(folder_ / "none/x.png"));
  EXPECT_FALSE(fs::exists(folder_ / "x.png"));
}

TEST_F(MtdataTest, Help) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Exit status: 0 success"));
  for (const std::string name : {"import", "info", "show", "verify", "serve", "fetch", "key", "bearer"}) {
    EXPECT_THAT(out_, HasSubstr("\n  " + name + " "));
    ASSERT_EQ(Run({name, "--help"}), 0);
    EXPECT_THAT(out_, HasSubstr("usage: mtdata " + name));
    EXPECT_THAT(out_, HasSubstr("\n  mtdata " + name)) << "an example";
    ASSERT_EQ(Run({"--help"}), 0);
  }
  EXPECT_EQ(Run({"import", "--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("mtdata import SOURCE DEST"), HasSubstr("--skip_bad")));
  const std::string flat = std::regex_replace(out_, std::regex("\\s+"), " ");  // lines are wrapped
  for (const Importer& importer : Importers())
    EXPECT_THAT(flat, HasSubstr(importer.name + " " + importer.help));
}

TEST_F(MtdataTest, WrongUsageExitsWith2) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(Run({"imprt"}), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean import"));
  EXPECT_EQ(Run({"import", "a"}), 2);
  EXPECT_THAT(err_, HasSubstr("SOURCE and DEST"));
  EXPECT_EQ(Run({"import", "a", "b", "c"}), 2);
  EXPECT_EQ(Run({"import", "a", "b", "--resize", "big"}), 2);
  EXPECT_EQ(Run({"import", "a", "b", "--threads", "0"}), 2);
  EXPECT_EQ(Run({"import", "a", "b", "--format", "zip"}), 2);
  EXPECT_EQ(Run({"import", "a", "b", "--skip_bda"}), 2);
  EXPECT_THAT(err_, HasSubstr("skip_bad"));
}

TEST_F(MtdataTest, FailureExitsWith1AndNamesTheFile) {
  EXPECT_EQ(Run({"import", folder_ / "none", folder_ / "out"}), 1);
  EXPECT_THAT(err_, HasSubstr(folder_ / "none"));
  WriteImages(folder_ / "in");
  test::Write(folder_ / "in/train/a/bad.png", "bad");
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out"}), 1);
  EXPECT_THAT(err_, HasSubstr("train/a/bad.png"));
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--skip_bad"}), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("left out train/a/bad.png"));
  EXPECT_THAT(out_, HasSubstr("1 left out"));
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--skip_bad"}), 1);
  EXPECT_THAT(err_, HasSubstr("--force"));
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out", "--skip_bad", "--force", "--resize=2x2"}), 0)
      << err_;
}

TEST_F(MtdataTest, UnwritableDestinationFailsBeforeDecoding) {
  WriteImages(folder_ / "in");
  EXPECT_EQ(Run({"import", folder_ / "in", "/proc/mtdata/out"}), 1);
  EXPECT_THAT(err_, HasSubstr("/proc/mtdata"));
}

/// An import that cannot end, because one of its files is a FIFO without data.
class StoppedImportTest : public MtdataTest {
 protected:
  StoppedImportTest() {
    WriteImages(folder_ / "in");
    EXPECT_EQ(mkfifo((folder_ / "in/train/b/zz.png").c_str(), 0600), 0);
    pid_ = Start({"import", folder_ / "in", folder_ / "out", "--threads=2", "--store=pixels"});
    // Opening a FIFO for writing returns once the import, in the middle of its copy, opened it for reading.
    writer_ = UniqueFd(open((folder_ / "in/train/b/zz.png").c_str(), O_WRONLY | O_CLOEXEC));
  }

  pid_t pid_ = 0;
  UniqueFd writer_;
};

class StopSignalTest : public StoppedImportTest, public testing::WithParamInterface<int> {};

TEST_P(StopSignalTest, ImportCleansUp) {
  kill(pid_, GetParam());
  writer_.Reset();
  EXPECT_EQ(Wait(pid_), 128 + GetParam());
  EXPECT_THAT(err_, HasSubstr("stopped"));
  EXPECT_THAT(test::Names(folder_.path()), ElementsAre("in", "stderr", "stdout"));
}

INSTANTIATE_TEST_SUITE_P(All, StopSignalTest, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& signal) { return "Signal" + std::to_string(signal.param); });

TEST_F(StoppedImportTest, KilledImportLeavesNothingThatLooksComplete) {
  kill(pid_, SIGKILL);
  EXPECT_EQ(Wait(pid_), -SIGKILL);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
    EXPECT_NE(entry.path().filename(), "index.json");
  fs::remove(folder_ / "in/train/b/zz.png");
  EXPECT_EQ(Run({"import", folder_ / "in", folder_ / "out"}), 0) << err_;
  EXPECT_THAT(err_, HasSubstr(".out.partial-"));  // reports the remains
}

}  // namespace
}  // namespace mtrun::datasets
