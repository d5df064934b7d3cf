#include "base/standard_output.h"

#include <fcntl.h>
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
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
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

}  // namespace
}  // namespace mtrun
