#include "launcher/observe/file_timer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json_fields.h"
#include "base/json_lines.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMaxBytes = 64 << 10;  // per request; clients stay below PIPE_BUF
// The clients' clock can be set while a timer runs, so it is read at least this often.
constexpr double kMaxSleep = 1;

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Server : public FileTimerServer {
 public:
  Server(asio::io_context& io, std::string path, std::string folder, OnExpired on_expired)
      : path_(std::move(path)),
        folder_(std::move(folder)),
        on_expired_(std::move(on_expired)),
        pipe_(io),
        clock_(io) {}

  ~Server() override {
    if (made_) unlink(path_.c_str());
    if (!folder_.empty()) rmdir(folder_.c_str());
  }

  absl::Status Open() {
    struct stat info;
    if (lstat(path_.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) unlink(path_.c_str());
    if (mkfifo(path_.c_str(), 0600) != 0)
      return ErrnoStatus(errno, absl::StrCat("make the file timer's pipe ", path_));
    made_ = true;
    // Open for writing too, so that the pipe never reports end-of-file.
    const int fd = open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open the file timer's pipe ", path_));
    pipe_.assign(fd);
    Read();
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }

 private:
  void Read() {
    pipe_.async_read_some(asio::buffer(bytes_), [this](std::error_code error, size_t size) {
      if (error) return;
      if (!lines_->Append({bytes_.data(), size}).ok()) lines_.emplace(kMaxBytes);  // lines are shorter
      while (const auto line = lines_->Next()) {
        if (const absl::Status taken = timers_.Take(*line); !taken.ok())
          log::Warning("file timer: ", taken.message());
      }
      Look();
      Read();
    });
  }

  void Look() {
    for (const FileTimers::Expired& expired : timers_.Expire(WallSeconds())) on_expired_(expired);
    const std::optional<double> next = timers_.Next();
    if (!next) {
      clock_.cancel();
      return;
    }
    const double sleep = std::clamp(*next - WallSeconds(), 0.001, kMaxSleep);
    clock_.expires_after(FromSeconds(sleep));
    clock_.async_wait([this](std::error_code error) {
      if (!error) Look();
    });
  }

  const std::string path_, folder_;
  const OnExpired on_expired_;
  bool made_ = false;
  FileTimers timers_;
  std::optional<LineBuffer> lines_ = LineBuffer(kMaxBytes);
  std::array<char, 4096> bytes_;
  asio::posix::stream_descriptor pipe_;
  asio::steady_timer clock_;
};

}  // namespace

absl::Status FileTimers::Take(std::string_view line) {
  MT_ASSIGN_OR_RETURN(const nlohmann::json request, ParseJsonObject(line, kMaxBytes));
  JsonFields fields("a request", request);
  std::pair<int64_t, std::string> key;
  Timer timer;
  fields.Read("pid", key.first);
  fields.Read("scope_id", key.second);
  fields.Read("expiration_time", timer.expires);
  fields.Read("signal", timer.signal);
  MT_RETURN_IF_ERROR(fields.status());
  if (timer.expires < 0) {
    timers_.erase(key);
  } else {
    timers_[std::move(key)] = timer;
  }
  return absl::OkStatus();
}

std::vector<FileTimers::Expired> FileTimers::Expire(double now) {
  std::map<int64_t, std::pair<double, Expired>> first;  // by worker: time of expiry, and the requested signal
  std::set<int64_t> over;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) continue;
    const auto& [pid, scope] = key;
    over.insert(pid);
    if (timer.signal <= 0) continue;
    const auto [known, fresh] = first.try_emplace(pid, timer.expires, Expired{pid, timer.signal, scope});
    if (!fresh && timer.expires < known->second.first)
      known->second = {timer.expires, Expired{pid, timer.signal, scope}};
  }
  std::erase_if(timers_, [&](const auto& item) { return over.contains(item.first.first); });
  std::vector<Expired> expired;
  for (auto& [pid, item] : first) expired.push_back(std::move(item.second));
  return expired;
}

std::optional<double> FileTimers::Next() const {
  std::optional<double> next;
  for (const auto& [key, timer] : timers_) next = std::min(next.value_or(timer.expires), timer.expires);
  return next;
}

absl::StatusOr<std::unique_ptr<FileTimerServer>> FileTimerServer::Start(asio::io_context& io,
                                                                        std::string path,
                                                                        OnExpired on_expired) {
  std::string folder;
  if (path.empty()) {
    MT_ASSIGN_OR_RETURN(folder, MakeTemporaryFolder("mtrun_timer_"));
    path = folder + "/timer";
  }
  auto server = std::make_unique<Server>(io, std::move(path), std::move(folder), std::move(on_expired));
  MT_RETURN_IF_ERROR(server->Open());
  return server;
}

}  // namespace mtrun::launcher
