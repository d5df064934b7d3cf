#include "trainers/checkpoints/writer_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "base/posix.h"

namespace mtrun::checkpoints {
namespace {

constexpr char kSeveralNodes[] = "/.several_nodes";

/// Folders of older versions have the same name for it.
std::string PathIn(const std::string& folder) { return folder + "/.keeper"; }

std::string TextOf(const WriterMark& mark) {
  return absl::StrFormat("run %016x generation %d\n", mark.run, mark.generation);
}

}  // namespace

/// Writes in place instead of renaming. Network file systems promise that opening a file shows what was
/// written before the last close, but after a rename, a name can lead to the old file for a minute.
absl::Status WriteWriterMark(const std::string& folder, const WriterMark& mark) {
  const UniqueFd file(open(PathIn(folder).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoStatus(errno, "create " + PathIn(folder));
  return WriteAll(file.get(), TextOf(mark));
}

absl::Status MarkSeveralNodes(const std::string& folder) {
  const std::string path = folder + kSeveralNodes;
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  return file.valid() ? absl::OkStatus() : ErrnoStatus(errno, "create " + path);
}

bool IsOfSeveralNodes(const std::string& folder) {
  return access((folder + kSeveralNodes).c_str(), F_OK) == 0 || access(PathIn(folder).c_str(), F_OK) == 0;
}

bool HasWriterMark(const std::string& folder, const WriterMark& mark) {
  const auto text = ReadFile(PathIn(folder));
  return text.ok() && *text == TextOf(mark);
}

}  // namespace mtrun::checkpoints
