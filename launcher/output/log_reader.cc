#include "launcher/output/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::launcher {
namespace {

using rendezvous::kMaxLogBytes;
using rendezvous::LogPart;
using rendezvous::LogRequest;

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Returns the length of the part before the first whole line. If the text is the end of one long line, as a
/// progress bar leaves it, that is the part before the first whole state of the bar.
size_t PartialLine(const std::string& text) {
  for (const char end : {'\n', '\r'}) {
    const size_t at = text.find(end);
    if (at != std::string::npos && text.find_first_not_of("\r\n", at) != std::string::npos) return at + 1;
  }
  return 0;
}

/// Reads from `*at` (-1: the last lines) and advances it. Returns false if the file does not exist.
bool ReadOn(const std::string& path, int64_t* at, std::string* text, bool* more) {
  const UniqueFd file(path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    *at = 0;
    return false;
  }
  const auto size = static_cast<int64_t>(status.st_size);
  const bool tail = *at < 0;
  if (tail) *at = std::max<int64_t>(0, size - static_cast<int64_t>(kMaxLogBytes));
  if (*at > size) *at = size;
  const bool cut = tail && *at > 0;
  text->resize(std::min(kMaxLogBytes, static_cast<size_t>(size - *at)));
  const ssize_t got = pread(file.get(), text->data(), text->size(), static_cast<off_t>(*at));
  text->resize(got > 0 ? static_cast<size_t>(got) : 0);
  *at += static_cast<int64_t>(text->size());
  *more |= *at < size;
  if (cut) text->erase(0, PartialLine(*text));
  return true;
}

}  // namespace

LogPart ReadLogPart(const LogRequest& request, const WorkerFiles& files) {
  LogPart part{.id = request.id};
  if (files.out.empty() && files.err.empty()) {
    part.error =
        absl::StrCat("rank ", request.rank, " has no log files: its mtrun runs with --log_dir /dev/null");
    return part;
  }
  part.attempt = FolderOf(files.out.empty() ? files.err : files.out);
  part.out_end = request.out;
  part.err_end = request.err;
  // If the worker was restarted, its new files are read from the beginning.
  if (!request.attempt.empty() && request.attempt != part.attempt) part.out_end = part.err_end = 0;
  const bool out = ReadOn(files.out, &part.out_end, &part.out, &part.more);
  const bool err = ReadOn(files.err, &part.err_end, &part.err, &part.more);
  if (!out && !err) {
    part.error = absl::StrCat("rank ", request.rank, " has no log files in ", part.attempt,
                              ": see --redirects and --tee of its mtrun");
  }
  return part;
}

void LogReader::Read(const LogRequest& request, const WorkerFiles& files, Done done) {
  if (waiting_ >= kMaxWaiting) {
    return done(
        LogPart{.id = request.id, .error = "its log files cannot be read as fast as they are asked for"});
  }
  ++waiting_;
  asio::post(pool_, [this, request, files, done = std::move(done)] {
    asio::post(io_, [this, part = ReadLogPart(request, files), done] {
      --waiting_;
      done(part);
    });
  });
}

}  // namespace mtrun::launcher
