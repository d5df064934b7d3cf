#include "base/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "base/posix.h"

namespace mtrun {

absl::Status PrintOut(std::string_view text) {
  errno = 0;
  std::cout.flush();
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  // errno is 0 if the stream failed earlier and the reason is lost.
  return ErrnoStatus(errno != 0 ? errno : EIO, "write to standard output");
}

}  // namespace mtrun
