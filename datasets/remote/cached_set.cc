#include "datasets/remote/cached_set.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

std::string SourceFile(const std::string& cache, const std::string& url) {
  return absl::StrCat(cache, "/sources/", Sha256Hex(url));
}

std::string Gib(int64_t bytes) {
  return absl::StrFormat("%.3g GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

}  // namespace

absl::StatusOr<CachedSet> CachedSet::Make(const std::string& cache, const std::string& text) {
  MT_ASSIGN_OR_RETURN(const Index index, DecodeIndex(text));
  CachedSet set;
  set.digest_ = IndexDigest(index);
  set.folder_ = absl::StrCat(cache, "/", set.digest_);
  for (auto& [file, entry] : ShardsOf(index)) set.entries_[file] = entry;
  MT_RETURN_IF_ERROR(MakeFolders(set.folder_));
  const auto kept = ReadIndex(set.folder_);
  if (!kept.ok() || IndexDigest(*kept) != set.digest_)
    MT_RETURN_IF_ERROR(WriteFileAtomically(set.PathOf(kIndexFile), EncodeIndex(index)));
  return set;
}

absl::StatusOr<CachedSet> CachedSet::Remembered(const std::string& cache, const std::string& url) {
  // Another user could have named any set.
  if (!IsOnlyOurs(SourceFile(cache, url), 2)) return absl::NotFoundError("no set that this user remembered");
  MT_ASSIGN_OR_RETURN(const std::string digest, ReadFile(SourceFile(cache, url)));
  MT_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(absl::StrCat(cache, "/", absl::StripAsciiWhitespace(digest), "/", kIndexFile)));
  return Make(cache, text);
}

absl::Status CachedSet::Remember(const std::string& cache, const std::string& url) const {
  const std::string path = SourceFile(cache, url), line = digest_ + "\n";
  // If it is known already, nothing is written: a full disk does not stop clients whose set is cached.
  if (const auto known = ReadFile(path); known.ok() && *known == line) return absl::OkStatus();
  MT_RETURN_IF_ERROR(MakeFolders(absl::StrCat(cache, "/sources")));
  return WriteFileAtomically(path, line);
}

const ShardEntry* CachedSet::Find(const std::string& file) const {
  const auto found = entries_.find(file);
  return found == entries_.end() ? nullptr : &found->second;
}

void CachedSet::SetAside(const std::string& file) const {
  const std::string path = PathOf(file);
  if (std::rename(path.c_str(), absl::StrCat(path, ".part.", HostName()).c_str()) == 0)
    log::Warning(path, " was modified after it was verified: its checksum will be compared again");
}

absl::Status MakeRoom(const std::string& cache, int64_t need, int64_t bound, bool full,
                      const std::function<bool(const std::string& path)>& may_go) {
  if (bound == 0 && !full) return absl::OkStatus();
  int64_t held = 0, freed = 0;
  std::vector<CachedFile> files = InOrderOfUse(CachedFiles(cache));
  for (const CachedFile& file : files) held += file.bytes;
  const auto fits = [&] { return full ? freed >= need : held + need <= bound; };
  for (const CachedFile& file : files) {
    if (fits()) return absl::OkStatus();
    if (!may_go(file.path) || !EvictShard(file.path)) continue;
    log::Info("evicted ", file.path);
    held -= file.bytes;
    freed += file.bytes;
  }
  if (fits() || (full && freed > 0)) return absl::OkStatus();
  if (full) return absl::ResourceExhaustedError(absl::StrCat("the disk of the cache ", cache, " is full"));
  return absl::ResourceExhaustedError(
      absl::StrCat("the cache ", cache, " may hold ", Gib(bound), " (--cache_gib), and all of it is in use"));
}

}  // namespace mtrun::datasets
