#include "base/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/string_view.h"
#include "base/terminal.h"

namespace mtrun {

absl::Status PrintOut(std::string_view text) {
  errno = 0;
  std::cout.flush();
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  // errno is 0 if the stream failed earlier and the reason is lost.
  return ErrnoStatus(errno != 0 ? errno : EIO, "write to standard output");
}

absl::Status PrintOut(std::string_view text, size_t indent) {
  return PrintOut(BreakLinesForPeople(text, TerminalSize::Of(STDOUT_FILENO).columns, indent));
}

void PrintError(std::string_view program, absl::string_view message) {
  const std::string text = absl::StrCat(View(program), ": ", message, "\n");
  std::cerr << BreakLinesForPeople(text, TerminalSize::Of(STDERR_FILENO).columns) << std::flush;
}

}  // namespace mtrun
