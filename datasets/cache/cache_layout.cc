#include "datasets/cache/cache_layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file_limit.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/value_or.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

/// Derives a time between 1970 and 1978 from the first 28 bits of the checksum.
timespec StampOf(const ShardEntry& entry) {
  uint32_t seconds = 0;
  const std::string digits = entry.sha256.substr(0, 7);
  std::from_chars(digits.data(), digits.data() + digits.size(), seconds, 16);
  return {.tv_sec = static_cast<time_t>(seconds) + 1, .tv_nsec = 0};
}

bool Fits(const struct stat& info, const ShardEntry& entry) {
  const timespec stamp = StampOf(entry);
  return S_ISREG(info.st_mode) && info.st_size == entry.bytes && info.st_mtim.tv_sec == stamp.tv_sec &&
         info.st_mtim.tv_nsec == stamp.tv_nsec;
}

bool IsOnlyOurs(const struct stat& info) {  // a link counts as writable for all
  return (info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// A shard's folders: of its split, of its set, and the cache.
constexpr int kFoldersOfAShard = 3;

/// Part of an unfinished file's name, after the name of the finished file.
constexpr char kPart[] = ".part.";

/// Returns true for the name of a shard, finished or not.
bool IsShardName(const std::string& split, const std::string& name) {
  const absl::string_view whole = absl::string_view(name).substr(0, name.find(kPart));
  absl::string_view number = whole;
  size_t value = 0;
  return absl::ConsumePrefix(&number, "shard_") && absl::ConsumeSuffix(&number, ".safetensors") &&
         absl::SimpleAtoi(number, &value) && ShardFile(split, value) == absl::StrCat(split, "/", whole);
}

/// Returns true if a path `depth` folders below the cache has a name that the fetcher uses there.
bool IsOfASet(const fs::path& path, int depth) {
  const std::string name = path.filename().string();
  if (depth == 0) return IsSha256(name);
  if (depth == 1) return IsSplitName(name);
  return depth == 2 && IsShardName(path.parent_path().filename().string(), name);
}

}  // namespace

std::string DefaultCache(const EnvironmentMap& environment) {
  if (const std::string cache = ValueOr(environment, "XDG_CACHE_HOME"); !cache.empty())
    return cache + "/mtrun/data";
  const std::string home = ValueOr(environment, "HOME");
  return (home.empty() ? "/root" : home) + "/.cache/mtrun/data";
}

std::string FetcherFile(const std::string& kind) { return absl::StrCat("fetcher.", HostName(), ".", kind); }

std::vector<std::pair<std::string, ShardEntry>> ShardsOf(const Index& index) {
  std::vector<std::pair<std::string, ShardEntry>> shards;
  for (const bool train : {true, false}) {
    for (const auto& [name, split] : index.splits) {
      if ((name == "train") != train) continue;
      for (size_t i = 0; i < split.shards.size(); ++i)
        shards.emplace_back(ShardFile(name, i), split.shards[i]);
    }
  }
  return shards;
}

bool IsOnlyOurs(const std::string& path, int folders) {
  std::vector<fs::path> levels = {path};
  for (int level = 0; level < folders; ++level) levels.push_back(levels.back().parent_path());
  for (size_t i = levels.size(); i-- > 0;) {  // from the cache down
    const bool is_cache = i + 1 == levels.size();
    struct stat info {};
    // The user may have linked the cache to another disk.
    if ((is_cache ? stat : lstat)(levels[i].c_str(), &info) != 0 || !IsOnlyOurs(info)) return false;
    if (is_cache && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return true;
  }
  return true;
}

absl::Status MakeCache(const std::string& cache) {
  const std::string above = fs::path(cache).parent_path().string();
  if (!above.empty()) MT_RETURN_IF_ERROR(MakeFolders(above));
  if (mkdir(cache.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, absl::StrCat("create folder ", cache));
  return MakeFolders(cache);
}

bool IsVerified(const std::string& path, const ShardEntry& entry) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !Fits(info, entry)) return false;
  if (IsOnlyOurs(path, kFoldersOfAShard)) return true;
  // The files that this process has read and found right, as of their change times, which no user can set.
  static Mutex mu;
  static std::map<std::pair<dev_t, ino_t>, std::pair<time_t, long>> read;
  const std::pair<dev_t, ino_t> file(info.st_dev, info.st_ino);
  const std::pair<time_t, long> changed(info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  {
    const MutexLock lock(mu);
    if (const auto known = read.find(file); known != read.end() && known->second == changed) return true;
  }
  const absl::StatusOr<std::string> sum = Sha256OfFile(path);
  if (!sum.ok() || *sum != entry.sha256) return false;
  const MutexLock lock(mu);
  read[file] = changed;
  return true;
}

absl::Status MarkVerified(const std::string& path, const ShardEntry& entry) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {now, StampOf(entry)};
  if (utimensat(AT_FDCWD, path.c_str(), times, 0) != 0)
    return ErrnoStatus(errno, absl::StrCat("set the modification time of ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<UniqueFd>> HoldShard(const std::string& path, const ShardEntry& entry) {
  // Evicted, replaced on another machine, or locked by the process that evicts it.
  const auto is_gone = [](int error) { return error == ENOENT || error == ESTALE || error == EWOULDBLOCK; };
  const auto failed = [&](const char* verb) -> absl::StatusOr<std::optional<UniqueFd>> {
    const int error = errno;
    if (is_gone(error)) return std::nullopt;
    return ErrnoStatus(error, absl::StrCat(verb, " ", path));
  };
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return failed("open");
  if (flock(fd.get(), LOCK_SH | LOCK_NB) != 0) return failed("lock");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return failed("stat");
  // If it was evicted between open and flock, it no longer has a name.
  if (info.st_nlink == 0 || !Fits(info, entry)) return std::nullopt;
  if (!IsOnlyOurs(path, kFoldersOfAShard)) {
    MT_ASSIGN_OR_RETURN(const std::string sum, Sha256OfFile(absl::StrCat("/proc/self/fd/", fd.get())));
    if (sum != entry.sha256) {  // the fetcher has to fetch it again
      if (unlink(path.c_str()) != 0 && !is_gone(errno)) return failed("remove the forged");
      return std::nullopt;
    }
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  futimens(fd.get(), times);  // if not allowed, only the order of eviction suffers
  return fd;
}

absl::Status CheckFileLimit(const std::string& url, size_t shards, size_t others) {
  if (FileLimit() >= shards + others) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      url, " has ", shards, " shards, but a process on this machine can have only ", FileLimit(),
      " files open: raise the hard limit (ulimit -Hn), or import the set with a larger --shard_mib"));
}

bool IsUntouched(const UniqueFd& held, const ShardEntry& entry) {
  struct stat info {};
  return fstat(held.get(), &info) == 0 && Fits(info, entry);
}

bool EvictShard(const std::string& path) {
  // On NFS, an exclusive lock needs a descriptor that is open for writing.
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return unlink(path.c_str()) == 0 || errno == ENOENT;
}

std::vector<CachedFile> CachedFiles(const std::string& cache) {
  std::vector<CachedFile> files;
  std::error_code error;
  // If a folder cannot be read, this process could not evict anything from it.
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(cache, options, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info {};
    const std::string path = it->path().string();
    const bool own = IsOfASet(it->path(), it.depth());
    if (!own) it.disable_recursion_pending();  // a user's file in the folder given by --cache
    if (!own || it.depth() < 2 || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({path, info.st_size, info.st_atim.tv_sec * 1'000'000'000 + info.st_atim.tv_nsec});
  }
  return files;
}

std::string WholeOf(const std::string& path) { return path.substr(0, path.find(kPart, path.rfind('/') + 1)); }

std::vector<CachedFile> InOrderOfUse(std::vector<CachedFile> files) {
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) {
    return std::tie(a.used_ns, a.path) < std::tie(b.used_ns, b.path);
  });
  return files;
}

}  // namespace mtrun::datasets
