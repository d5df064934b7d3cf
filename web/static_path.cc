#include "web/static_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/string_view.h"

namespace mtrun::web {
namespace {

bool IsName(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.size() > 255) return false;
  for (const char c : name) {
    if (c == '/' || c == '\\' || absl::ascii_iscntrl(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

/// Opens name by name, without any symbolic links, for kernels before 5.6, which lack openat2.
UniqueFd OpenStepwise(int root, const std::vector<std::string>& names) {
  UniqueFd at(fcntl(root, F_DUPFD_CLOEXEC, 0));
  for (size_t i = 0; i < names.size() && at.valid(); ++i) {
    const int kind = i + 1 < names.size() ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    at = UniqueFd(openat(at.get(), names[i].c_str(), kind | O_NOFOLLOW | O_CLOEXEC));
  }
  return at;
}

UniqueFd Open(int root, const std::vector<std::string>& names) {
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string path = absl::StrJoin(names, "/");
  UniqueFd fd(static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
  if (!fd.valid() && (errno == ENOSYS || errno == EPERM)) fd = OpenStepwise(root, names);
  return fd;
}

/// Returns whether the error means that the file does not exist: no such name, a path out of the folder, or a
/// socket. Other errors (no descriptors, disk or network trouble) do not answer that.
bool SaysItIsNotThere(int why) {
  for (const int one : {ENOENT, ENOTDIR, ELOOP, EXDEV, ENAMETOOLONG, ENXIO}) {
    if (why == one) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const absl::string_view digits = View(text.substr(i + 1, 2));
    if (digits.size() < 2 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit))
      return std::nullopt;
    decoded += absl::HexStringToBytes(digits);
    i += 2;
  }
  return decoded;
}

std::optional<std::vector<std::string>> SplitPath(std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  path.remove_prefix(1);
  std::vector<std::string> names;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::optional<std::string> name = PercentDecoded(path.substr(0, slash));
    if (!name || !IsName(*name)) return std::nullopt;
    names.push_back(*name);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
    if (path.empty()) return std::nullopt;  // a folder
  }
  return names;
}

absl::StatusOr<OpenedFile> OpenBelow(int root, const std::vector<std::string>& names) {
  const absl::Status none = absl::NotFoundError("no such file");
  if (names.empty()) return none;
  OpenedFile opened{.fd = Open(root, names), .facts = {}};
  struct stat info {};
  if (!opened.fd.valid() || fstat(opened.fd.get(), &info) != 0) {
    const int why = errno;
    return SaysItIsNotThere(why) ? none : ErrnoStatus(why, absl::StrCat("open ", absl::StrJoin(names, "/")));
  }
  if (!S_ISREG(info.st_mode)) return none;
  opened.facts = {.size = info.st_size,
                  .inode = static_cast<int64_t>(info.st_ino),
                  .changed_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
  return opened;
}

}  // namespace mtrun::web
