#include "web/static_path.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::web {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

TEST(StaticPath, NamesAreDecoded) {
  EXPECT_THAT(SplitPath("/"), Optional(IsEmpty()));
  EXPECT_THAT(SplitPath("/a/b.c"), Optional(ElementsAre("a", "b.c")));
  EXPECT_THAT(SplitPath("/a%20b/%c3%a9"), Optional(ElementsAre("a b", "\xc3\xa9")));
}

TEST(StaticPath, PathThatLeadsElsewhereIsRefused) {
  for (const char* path : {"",         "a",      "//",        "/a//b",   "/a/",    "/..",    "/../etc/passwd",
                           "/a/../b",  "/.",     "/%2e%2e/x", "/%2E./x", "/a%2fb", "/a%5cb", "/a\\b",
                           "/.hidden", "/a%00b", "/a%0ab",    "/%",      "/%2",    "/%zz",   "/\x01"}) {
    EXPECT_EQ(SplitPath(path), std::nullopt) << path;
  }
  EXPECT_EQ(SplitPath("/" + std::string(256, 'a')), std::nullopt);
}

class OpenBelowTest : public testing::Test {
 protected:
  OpenBelowTest() {
    fs::create_directories(folder_.File("root/set/train"));
    support::WriteText(folder_.File("root/set/index.json"), "inside");
    support::WriteText(folder_.File("secret"), "outside");
    fs::create_symlink("../../secret", folder_.File("root/set/up"));
    fs::create_symlink(folder_.File("secret"), folder_.File("root/set/absolute"));
    fs::create_symlink("set", folder_.File("root/alias"));
    fs::create_symlink("..", folder_.File("root/out"));
    mkfifo(folder_.File("root/set/pipe").c_str(), 0600);
    mknod(folder_.File("root/set/socket").c_str(), S_IFSOCK | 0600, 0);
    fs::create_symlink("loop", folder_.File("root/loop"));
    root_ = UniqueFd(open(folder_.File("root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  absl::StatusOr<OpenedFile> Open(const std::vector<std::string>& names) {
    return OpenBelow(root_.get(), names);
  }

  support::TemporaryFolder folder_;
  UniqueFd root_;
};

TEST_F(OpenBelowTest, FilesBelowTheRootAreOpened) {
  const auto file = Open({"set", "index.json"});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->facts.size, 6);
  EXPECT_TRUE(Open({"alias", "index.json"}).ok());  // a link to a target below
}

TEST_F(OpenBelowTest, OtherPathsAreNotFound) {
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{},
                                             {"none"},
                                             {"set"},
                                             {"set", "up"},
                                             {"set", "absolute"},
                                             {"out", "secret"},
                                             {"set", "pipe"},
                                             {"set", "socket"},
                                             {"set", "index.json", "x"},
                                             {"loop"},
                                             {std::string(300, 'a')}}) {
    EXPECT_TRUE(absl::IsNotFound(Open(names).status())) << testing::PrintToString(names);
  }
}

TEST_F(OpenBelowTest, FileThatCannotBeOpenedNowIsNotReportedMissing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = Open({"set", "index.json"}).status();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("open set/index.json"));
}

}  // namespace
}  // namespace mtrun::web
