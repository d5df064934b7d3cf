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
  // Of a stream that failed earlier nobody knows the reason any more.
  return ErrnoStatus(errno != 0 ? errno : EIO, "write to standard output");
}

}  // namespace mtrun
