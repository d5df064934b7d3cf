#include "base/standard_output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

/// Redirects standard output to a file while it exists.
class Instead {
 public:
  explicit Instead(const std::string& path) {
    std::fflush(stdout);
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
    EXPECT_GE(dup2(file.get(), STDOUT_FILENO), 0) << path;
  }
  ~Instead() {
    std::fflush(stdout);
    dup2(before_.get(), STDOUT_FILENO);
    std::clearerr(stdout);
    std::cout.clear();
  }

 private:
  const UniqueFd before_{dup(STDOUT_FILENO)};
};

std::string OnAFullDisk(const std::string& before, const std::string& text) {
  const Instead full("/dev/full");
  std::cout << before;
  return std::string(PrintOut(text).message());
}

TEST(StandardOutput, FullDiskIsAnErrorWithItsReason) {
  const std::string reason = "write to standard output: No space left on device";
  for (const size_t bytes : {1, 4096, 1 << 20})
    EXPECT_EQ(OnAFullDisk("", std::string(bytes, 'x')), reason) << bytes;
  EXPECT_EQ(OnAFullDisk("said before", ""), reason);
}

TEST(StandardOutput, EarlierLossIsAnError) {
  const Instead full("/dev/full");
  std::cout << "lost" << std::endl;
  EXPECT_THAT(std::string(PrintOut("").message()), testing::HasSubstr("write to standard output: "));
}

TEST(StandardOutput, TextsAreWrittenInOrder) {
  const std::string folder = *MakeTemporaryFolder("mtrun-output-"), file = folder + "/out";
  absl::Status printed;
  {
    const Instead there(file);
    std::cout << "one ";
    std::printf("two ");
    printed = PrintOut("three");
    EXPECT_EQ(*ReadFile(file), "one two three") << "already, and not at the end";
  }
  EXPECT_TRUE(printed.ok()) << printed;
  unlink(file.c_str());
  rmdir(folder.c_str());
}

TEST(StandardOutput, TerminalGetsWrappedLinesAndFilesWholeOnes) {
  const std::string folder = *MakeTemporaryFolder("mtrun-output-"), file = folder + "/out";
  const std::string text = "vit   " + std::string(30, 'x') + " trains\n";
  {
    const Instead there(file);
    ASSERT_TRUE(PrintOut(text, 6).ok());
  }
  EXPECT_EQ(*ReadFile(file), text);
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY));
  const winsize size{.ws_row = 24, .ws_col = 42, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(grantpt(terminal.get()) | unlockpt(terminal.get()) | ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  const UniqueFd keeps_it_open(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY));
  {
    const Instead there(ptsname(terminal.get()));
    ASSERT_TRUE(PrintOut(text, 6).ok());
  }
  char shown[100];
  const ssize_t length = read(terminal.get(), shown, sizeof(shown));
  ASSERT_GT(length, 0);
  EXPECT_EQ(std::string(shown, static_cast<size_t>(length)),
            "vit   " + std::string(30, 'x') + "\r\n      trains\r\n");
  unlink(file.c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace mtrun
