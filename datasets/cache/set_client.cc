#include "datasets/cache/set_client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/unix_address.h"
#include "datasets/cache/cache_layout.h"

extern char** environ;

namespace mtrun::datasets {
namespace {

// Interval between polls for messages, and between attempts to connect to a fetcher.
constexpr Duration kLookEvery = std::chrono::milliseconds(100);
// How long a started fetcher has to accept connections before another is started.
constexpr Duration kStartPatience = std::chrono::seconds(2);

/// Connects through a descriptor of the folder, because a socket's path is limited to 107 characters.
absl::StatusOr<UniqueFd> ConnectIn(const std::string& folder) {
  const UniqueFd at(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return ErrnoStatus(errno, absl::StrCat("open ", folder));
  MT_ASSIGN_OR_RETURN(const UnixAddress address,
                      ParseUnixAddress(absl::StrCat("/proc/self/fd/", at.get(), "/", FetcherFile("sock"))));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a socket");
  if (connect(fd.get(), address.get(), address.size) != 0)
    return ErrnoStatus(errno, "connect to the fetcher");
  if (!IsOfThisUser(fd.get()))
    return absl::PermissionDeniedError(absl::StrCat("the fetcher of another user is running in ", folder));
  return fd;
}

/// Returns the last message of mtdata in its log after offset `from` (in the whole log if it is shorter),
/// without time and name. Returns the last line if the log has none of mtdata's messages.
std::string SaidLast(const std::string& log, uintmax_t from) {
  const absl::StatusOr<std::string> text = ReadFile(log);
  if (!text.ok()) return std::string(text.status().message());
  std::string words, last = "it gave no reason";
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(*text).substr(from <= text->size() ? from : 0), '\n')) {
    if (!line.empty()) last = std::string(line);
    for (const absl::string_view mark : {"mtdata: ", " mtdata E "}) {
      const size_t at = line.find(mark);
      if (at != absl::string_view::npos) words = std::string(line.substr(at + mark.size()));
    }
  }
  return words.empty() ? last : words;
}

}  // namespace

SetClient::SetClient(SetRequest request) : request_(std::move(request)) {}
SetClient::~SetClient() = default;

/// Gives the fetcher its own session and no descriptors: it serves others after this process has exited.
void SetClient::StartFetcher() {
  started_ = MonotonicNow();
  std::vector<std::string> words = request_.fetcher;
  words.push_back(request_.cache);
  const std::vector<char*> argv = ExecWords(words);
  const std::string log = absl::StrCat(request_.cache, "/", FetcherFile("log"));
  std::error_code no_log;
  const uintmax_t said = std::filesystem::file_size(log, no_log);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  while (error == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }  // it forks, and exits once clients can reach the child
  unreached_ = error == 0 && status == 0;
  cannot_start_ = cannot_start_ || !unreached_;
  if (error != 0) {
    trouble_ =
        absl::StrCat("cannot start ", words[0], " to fetch data: ", ErrnoStatus(error, "exec").message());
  } else if (status != 0) {
    trouble_ = absl::StrCat("the fetcher exits at once: ", SaidLast(log, said), " (its log: ", log, ")");
  }
}

/// Reports a fetcher that holds the lock, so that no other can start, but whose socket cannot be found.
void SetClient::NameUnreachable(const absl::Status& why) {
  cannot_start_ = true;
  trouble_ = absl::StrCat("a fetcher is running for this cache (it holds the lock ", request_.cache, "/",
                          FetcherFile("lock"), ") but does not answer at ", FetcherFile("sock"),
                          " in the same folder (", why.message(),
                          "): end that process if the socket was removed; if another machine with the same "
                          "host name uses the folder, give this one its own folder (--cache)");
}

absl::Status SetClient::Connect() {
  MT_RETURN_IF_ERROR(MakeCache(request_.cache));
  absl::StatusOr<UniqueFd> connected = ConnectIn(request_.cache);
  if (absl::IsPermissionDenied(connected.status())) return connected.status();
  if (!connected.ok()) {
    if (MonotonicNow() - started_ <= kStartPatience) return absl::OkStatus();
    if (unreached_) NameUnreachable(connected.status());
    StartFetcher();
    return absl::OkStatus();
  }
  socket_ = *std::move(connected);
  unreached_ = false;
  if (std::exchange(cannot_start_, false)) trouble_.clear();
  lines_.emplace();
  MT_RETURN_IF_ERROR(Send(request_.open));
  return SendWants();
}

/// Requests only the files that are not held yet.
absl::Status SetClient::SendWants() {
  fetch::Want want;
  for (const std::string& file : wanted_) {
    if (held_.count(file) == 0) want.files.push_back(file);
  }
  return want.files.empty() ? absl::OkStatus() : Send(want);
}

/// Ignores a fetcher that has died: the next read detects it.
absl::Status SetClient::Send(const fetch::Message& message) {
  const std::string line = fetch::Encode(message);
  std::string_view rest = line;
  while (socket_.valid() && !rest.empty()) {
    const ssize_t sent = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) socket_.Reset();
    if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

/// Receives messages, and waits at most `timeout` for the first one.
absl::Status SetClient::Hear(Duration timeout) {
  pollfd waits{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  const int milliseconds = static_cast<int>(timeout / std::chrono::milliseconds(1));
  if (poll(&waits, 1, milliseconds) <= 0) return absl::OkStatus();
  std::array<char, 16 << 10> bytes;
  const ssize_t read = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (read < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  if (read <= 0) {
    socket_.Reset();
    return absl::OkStatus();
  }
  absl::Status status = lines_->Append({bytes.data(), static_cast<size_t>(read)});
  while (status.ok()) {
    const std::optional<std::string> line = lines_->Next();
    if (!line) break;
    const auto message = fetch::Decode(*line);
    status = message.ok() ? OnMessage(*message) : message.status();
  }
  return status;
}

absl::Status SetClient::OnMessage(const fetch::Message& message) {
  if (const auto* trouble = std::get_if<fetch::Trouble>(&message)) trouble_ = trouble->text;
  if (const auto* here = std::get_if<fetch::Here>(&message)) here_.insert(here->file);
  if (const auto* failed = std::get_if<fetch::Failed>(&message))
    return absl::FailedPreconditionError(failed->text);
  if (const auto* opened = std::get_if<fetch::Opened>(&message)) return Adopt(opened->digest);
  return absl::OkStatus();
}

absl::Status SetClient::Adopt(const std::string& digest) {
  if (index_) {
    if (IndexDigest(*index_) == digest) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        request_.open.url, " now holds another data set (digest ", digest.substr(0, 12), ", before it was ",
        IndexDigest(*index_).substr(0, 12), "): a run must continue with the data that it began with"));
  }
  const std::string folder = absl::StrCat(request_.cache, "/", digest);
  MT_ASSIGN_OR_RETURN(Index index, ReadIndex(folder));
  if (IndexDigest(index) != digest)
    return absl::DataLossError(
        absl::StrCat(folder, "/", kIndexFile, " was changed: it is not of the set ", digest));
  for (auto& [file, entry] : ShardsOf(index)) entries_[file] = entry;
  if (!IsOnlyOurs(folder, 1))
    log::Info("other users may write to the cache ", request_.cache,
              ": each shard is read and verified before use");
  folder_ = folder;
  index_ = std::move(index);
  return absl::OkStatus();
}

absl::Status SetClient::WaitUntil(const std::function<bool()>& done, const std::vector<std::string>& files,
                                  const Watch& watch) {
  const TimePoint began = MonotonicNow();
  TimePoint asked{};
  while (!done()) {
    // The fetcher has to check again, but not continuously: it reports each file that it has once more.
    if (const TimePoint now = MonotonicNow(); now - asked >= kLookEvery && TakeLost(files)) {
      asked = now;
      MT_RETURN_IF_ERROR(SendWants());
    }
    if (!socket_.valid()) {
      MT_RETURN_IF_ERROR(Connect());
      if (!socket_.valid()) std::this_thread::sleep_for(kLookEvery);
    }
    if (socket_.valid()) MT_RETURN_IF_ERROR(Hear(kLookEvery));
    Wait wait{.waited = MonotonicNow() - began, .trouble = cannot_hold_.empty() ? trouble_ : cannot_hold_};
    wait.of = static_cast<int64_t>(files.size());
    for (const std::string& file : files) wait.files += held_.count(file) != 0 ? 1 : 0;
    if (watch) MT_RETURN_IF_ERROR(watch(wait));
  }
  return absl::OkStatus();
}

absl::Status SetClient::Open(const Watch& watch) {
  return WaitUntil([this] { return index_.has_value(); }, {}, watch);
}

absl::Status SetClient::Want(std::vector<std::string> files) {
  if (files == wanted_) return absl::OkStatus();
  wanted_ = std::move(files);
  // Send an empty list too: the fetcher keeps the files that are wanted.
  return wanted_.empty() ? Send(fetch::Want{}) : SendWants();
}

bool SetClient::HoldAll(const std::vector<std::string>& files) {
  bool all = true;
  cannot_hold_.clear();
  for (const std::string& file : files) {
    if (held_.count(file) != 0) continue;
    absl::StatusOr<std::optional<UniqueFd>> held =
        HoldShard(absl::StrCat(folder_, "/", file), entries_.at(file));
    if (!held.ok()) cannot_hold_ = std::string(held.status().message());
    if (held.ok() && *held) {
      held_[file] = **std::move(held);
    } else {
      all = false;
    }
  }
  return all;
}

/// Returns true if one of the files was reported as fetched but could not be held: it is damaged or evicted.
bool SetClient::TakeLost(const std::vector<std::string>& files) {
  bool lost = false;
  for (const std::string& file : files) lost |= held_.count(file) == 0 && here_.erase(file) != 0;
  return lost;
}

absl::Status SetClient::Await(const std::vector<std::string>& files, const Watch& watch) {
  for (const std::string& file : files) {
    if (entries_.count(file) == 0)
      return absl::NotFoundError(absl::StrCat(request_.open.url, " has no file ", file));
  }
  if (HoldAll(files)) return absl::OkStatus();
  std::vector<std::string> wanted = files;
  for (const std::string& file : wanted_) {
    if (std::find(files.begin(), files.end(), file) == files.end()) wanted.push_back(file);
  }
  MT_RETURN_IF_ERROR(Want(std::move(wanted)));
  collects_ = true;
  const auto there = [&] { return HoldAll(files); };
  const absl::Status came = WaitUntil(there, files, watch);
  if (!absl::IsFailedPrecondition(came) || wanted_.size() == files.size()) return came;
  log::Warning("cannot fetch shards that may not be needed yet: ", came.message());
  socket_.Reset();
  wanted_ = files;
  return WaitUntil(there, files, watch);
}

std::vector<std::string> SetClient::Collect() {
  if (!collects_) return {};
  absl::Status heard = socket_.valid() ? absl::OkStatus() : Connect();
  if (heard.ok() && socket_.valid()) heard = Hear(Duration::zero());
  if (!heard.ok()) {
    log::Warning("cannot fetch shards that are not needed yet: ", heard.message());
    collects_ = false;
    socket_.Reset();  // the next Await asks once more
  }
  // The fetcher also reports files that other processes wanted; holding those would prevent their eviction.
  const std::set<std::string> wanted(wanted_.begin(), wanted_.end());
  std::vector<std::string> held;
  for (const std::string& file : std::exchange(here_, {})) {
    if (held_.count(file) != 0 || wanted.count(file) == 0) continue;
    if (HoldAll({file})) {
      held.push_back(file);
    } else {
      here_.insert(file);  // Await makes the fetcher check again
    }
  }
  return held;
}

std::vector<std::string> SetClient::Damaged(const std::set<std::string>& files) {
  std::vector<std::string> damaged;
  for (const std::string& file : files) {
    const auto held = held_.find(file);
    if (held != held_.end() && !IsUntouched(held->second, entries_.at(file))) {
      log::Warning(folder_, "/", file, " was modified while in use: fetching it again");
      damaged_.try_emplace(file, std::move(held->second));  // the mapping is still of the damaged file
      held_.erase(held);
    }
    if (damaged_.count(file) != 0) damaged.push_back(file);
  }
  return damaged;
}

void SetClient::ForgetDamaged(const std::vector<std::string>& files) {
  for (const std::string& file : files) damaged_.erase(file);
}

void SetClient::Release(const std::vector<std::string>& files) {
  for (const std::string& file : files) held_.erase(file);
  ForgetDamaged(files);
}

}  // namespace mtrun::datasets
