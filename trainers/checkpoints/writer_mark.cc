#include "trainers/checkpoints/writer_mark.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "base/posix.h"

namespace mtrun::checkpoints {
namespace {

/// Folders of older versions have it under this name.
std::string PathIn(const std::string& folder) { return folder + "/.keeper"; }

std::string TextOf(const WriterMark& mark) {
  return absl::StrFormat("run %016x generation %d\n", mark.run, mark.generation);
}

}  // namespace

/// In place, not by renaming: network file systems promise that who opens a file reads what was closed
/// before, while a name may lead to the old file for a minute after it was replaced.
absl::Status WriteWriterMark(const std::string& folder, const WriterMark& mark) {
  const UniqueFd file(open(PathIn(folder).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoStatus(errno, "create " + PathIn(folder));
  return WriteAll(file.get(), TextOf(mark));
}

bool HasAnyWriterMark(const std::string& folder) { return ReadFile(PathIn(folder)).ok(); }

bool HasWriterMark(const std::string& folder, const WriterMark& mark) {
  const auto text = ReadFile(PathIn(folder));
  return text.ok() && *text == TextOf(mark);
}

}  // namespace mtrun::checkpoints
