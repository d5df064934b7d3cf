#include "rendezvous/service/state_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/folder_names.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/splitmix.h"
#include "base/start_thread.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "nlohmann/json.hpp"
#include "rendezvous/wire/codec.h"

namespace mtrun::rendezvous {
namespace {

namespace fs = std::filesystem;

// One line each: heading, endpoint, job, JSON; then the encoded membership. The JSON is [ids of verified
// nodes], or {"verified": [ids], "spares": {id: service}} if there are spares. The first version had none.
constexpr char kHeading[] = "mtrun membership 2", kFirstHeading[] = "mtrun membership 1";
constexpr char kEnding[] = ".membership";
// One line each: heading, endpoint, job, end (JSON).
constexpr char kEndHeading[] = "mtrun end 1", kEndEnding[] = ".end";
constexpr auto kEndsStay = std::chrono::hours(24);
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kHashDigits = 16;

struct Kept {
  std::string endpoint, job_id;
  RememberedJob job;
};

/// Returns the strings of an array; none for anything else.
std::set<std::string> IdsOf(const nlohmann::json& list) {
  std::set<std::string> ids;
  if (!list.is_array()) return ids;
  for (const nlohmann::json& id : list) {
    if (id.is_string()) ids.insert(id.get<std::string>());
  }
  return ids;
}

/// Reads the line of JSON into `job`; nothing of it if it is malformed.
void ReadNodes(const std::string& text, RememberedJob& job) {
  const absl::StatusOr<nlohmann::json> nodes = ParseJson(text, kMaxBytes);
  if (!nodes.ok()) return;
  if (!nodes->is_object()) {
    job.verified = IdsOf(*nodes);
    return;
  }
  job.verified = IdsOf(nodes->value("verified", nlohmann::json()));
  const nlohmann::json spares = nodes->value("spares", nlohmann::json());
  if (!spares.is_object()) return;
  for (const auto& [node_id, service] : spares.items()) {
    if (service.is_string() && ParseEndpoint(service.get<std::string>()).ok())
      job.spares[node_id] = service.get<std::string>();
  }
}

absl::StatusOr<Kept> Read(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string contents, ReadFileStart(path, kMaxBytes + 1));
  if (contents.size() > kMaxBytes) return absl::InvalidArgumentError("too long for a file of that kind");
  const bool first_form = absl::StartsWith(contents, kFirstHeading);
  const size_t lines = first_form ? 3 : 4;
  const std::vector<std::string> parts =
      absl::StrSplit(contents, absl::MaxSplits('\n', static_cast<int>(lines)));
  if (parts.size() != lines + 1 || (!first_form && parts[0] != kHeading))
    return absl::InvalidArgumentError("another kind of file");
  MT_ASSIGN_OR_RETURN(Assignment generation, DecodeMembership(parts.back()));
  Kept kept{parts[1], parts[2], {std::move(generation), {}}};
  if (!first_form) ReadNodes(parts[3], kept.job);
  return kept;
}

struct KeptEnd {
  std::string endpoint;
  RememberedEnd end;
};

/// Returns our files of that kind (see PathOf); the folder may contain others.
std::vector<fs::path> FilesOf(const std::string& folder, const char* ending) {
  std::vector<fs::path> files;
  for (const std::string& name : NamesIn(folder)) {
    const bool ours = name.size() == kHashDigits + std::strlen(ending) && absl::EndsWith(name, ending) &&
                      std::all_of(name.begin(), name.begin() + kHashDigits, absl::ascii_isxdigit);
    if (ours) files.push_back(fs::path(folder) / name);
  }
  return files;
}

/// Returns the ends in the folder, the oldest first, and removes those that are a day older than the newest
/// file of ours. The clock of this machine only excludes files of the future: it may be wrong, and other
/// machines may share the folder.
std::vector<std::string> EndsIn(const std::string& folder) {
  const fs::file_time_type future = fs::file_time_type::clock::now() + kEndsStay;
  std::optional<fs::file_time_type> newest;
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (const char* ending : {kEnding, kEndEnding}) {
    for (const fs::path& path : FilesOf(folder, ending)) {
      std::error_code gone;
      const fs::file_time_type at = fs::last_write_time(path, gone);
      if (gone) continue;
      if (at < future && (!newest || *newest < at)) newest = at;
      if (ending == kEndEnding) found.emplace_back(at, path.string());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [at, path] : found) {
    std::error_code gone;
    if (newest.has_value() && newest.value() - at > kEndsStay) {
      fs::remove(path, gone);
    } else {
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

absl::StatusOr<KeptEnd> ReadEnd(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string contents, ReadFileStart(path, kMaxBytes));
  const std::vector<std::string> parts = absl::StrSplit(contents, absl::MaxSplits('\n', 3));
  if (parts.size() != 4 || parts[0] != kEndHeading) return absl::InvalidArgumentError("another kind of file");
  MT_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(parts[3], kMaxBytes));
  KeptEnd kept{parts[1], {}};
  kept.end.job_id = parts[2];
  const nlohmann::json reason = json.value("reason", nlohmann::json());
  const nlohmann::json success = json.value("success", nlohmann::json());
  const auto run = WholeNumber<uint64_t>(json.value("run", nlohmann::json()));
  const auto number = WholeNumber<uint64_t>(json.value("generation", nlohmann::json()));
  const auto code = WholeNumber<int>(json.value("exit_code", nlohmann::json()));
  if (!run || *run == 0 || !number || !code || !reason.is_string() || !success.is_boolean())
    return absl::InvalidArgumentError("malformed");
  kept.end.run = {*run, *number, success.get<bool>()};
  kept.end.outcome.success = success.get<bool>();
  kept.end.outcome.exit_code = *code;
  kept.end.outcome.reason = reason.get<std::string>();
  kept.end.outcome.stopped = json.value("stopped", nlohmann::json()) == nlohmann::json(true);
  return kept;
}

std::string EncodeEnd(const std::string& endpoint, const RememberedEnd& end) {
  const nlohmann::json json = {
      {"run", end.run.incarnation},
      {"generation", end.run.last_number},
      {"success", end.outcome.success},
      {"exit_code", end.outcome.exit_code},
      {"reason", end.outcome.root_cause ? Describe(end.outcome) : end.outcome.reason},
      {"stopped", end.outcome.stopped}};
  return absl::StrCat(kEndHeading, "\n", endpoint, "\n", end.job_id, "\n",
                      json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

/// Job ids and endpoints may have any characters and any length.
std::string PathOf(const std::string& folder, const std::string& endpoint, const std::string& job_id,
                   const char* ending = kEnding) {
  uint64_t hash = 0;
  for (const unsigned char c : absl::StrCat(endpoint, "\n", job_id)) hash = SplitMix64(hash ^ c);
  return absl::StrCat(folder, "/", absl::StrFormat("%016x", hash), ending);
}

}  // namespace

std::string StateKey(const std::string& endpoint, const std::string& host) {
  const absl::StatusOr<Endpoint> parsed = ParseEndpoint(endpoint);
  if (host.empty() || !parsed.ok()) return endpoint;
  // The key must not depend on what a resolver says today.
  const bool here = IsEveryAddress(parsed->host) || IsLoopback(parsed->host, NamesAsTheySay);
  return here ? absl::StrCat("port ", parsed->port, " on ", host) : endpoint;
}

StateFolder::StateFolder(std::string folder, std::string endpoint, Duration pause)
    : folder_(std::move(folder)), endpoint_(std::move(endpoint)), pause_(pause) {}

StateFolder::~StateFolder() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) {
    thread_.join();
  } else if (lacks_thread_) {
    Run();
  }
}

std::map<std::string, RememberedJob> StateFolder::Load() {
  std::map<std::string, RememberedJob> found;
  if (folder_.empty()) return found;
  for (const fs::path& path : FilesOf(folder_, kEnding)) {
    absl::StatusOr<Kept> kept = Read(path);
    if (!kept.ok()) {
      log::Warning(path.string(), " is ignored: ", kept.status().message());
    } else if (kept->endpoint == endpoint_) {
      kept_[kept->job_id] = {kept->job.generation.generation, kept->job.verified.size(),
                             DigestOf(kept->job.spares)};
      found[kept->job_id] = std::move(kept->job);
    }
  }
  return found;
}

void StateFolder::Keep(const std::string& job_id, const Assignment& generation,
                       const std::set<std::string>& verified, const Spares& spares) {
  if (folder_.empty()) return;
  const std::tuple wanted(generation.generation, verified.size(), spares.digest());
  if (lacks_thread_) StartWriter();
  if (std::exchange(kept_[job_id], wanted) == wanted) return;
  nlohmann::json nodes = verified;
  if (!spares.services().empty()) nodes = {{"verified", verified}, {"spares", spares.services()}};
  const std::string line = nodes.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  Put(PathOf(folder_, endpoint_, job_id),
      {absl::StrCat(kHeading, "\n", endpoint_, "\n", job_id, "\n", line, "\n", EncodeMembership(generation)),
       ""});
}

std::vector<RememberedEnd> StateFolder::LoadEnds() {
  std::vector<RememberedEnd> found;
  if (folder_.empty()) return found;
  for (const std::string& path : EndsIn(folder_)) {
    absl::StatusOr<KeptEnd> kept = ReadEnd(path);
    if (!kept.ok()) {
      log::Warning(path, " is ignored: ", kept.status().message());
    } else if (kept->endpoint == endpoint_) {
      found.push_back(std::move(kept->end));
    }
  }
  return found;
}

/// Writes the end first, so that a run of which a node still has a generation always has a record, even if
/// the end cannot be written.
void StateFolder::End(const RememberedEnd& end) {
  if (folder_.empty() || kept_.erase(end.job_id) == 0) return;
  Put(PathOf(folder_, endpoint_, end.job_id, kEndEnding),
      {EncodeEnd(endpoint_, end), PathOf(folder_, endpoint_, end.job_id)});
}

void StateFolder::Forget(const std::string& job_id) {
  if (folder_.empty() || kept_.erase(job_id) == 0) return;
  Put(PathOf(folder_, endpoint_, job_id), {});
}

void StateFolder::Put(const std::string& path, Change change) {
  {
    const MutexLock lock(mu_);
    failed_.erase(path);
    // A file to be removed after an unwritten end now belongs to a new run of the job.
    for (std::map<std::string, Change>* changes : {&due_, &failed_}) {
      for (auto& [other, before] : *changes) {
        if (before.replaces == path) before.replaces.clear();
      }
    }
    if (!change.replaces.empty()) {
      due_.erase(change.replaces);
      failed_.erase(change.replaces);
    }
    due_[path] = std::move(change);
    changed_.NotifyAll();
  }
  StartWriter();
}

void StateFolder::StartWriter() {
  const TimePoint now = MonotonicNow();
  if (thread_.joinable() || now < start_again_) return;
  start_again_ = now + pause_;
  lacks_thread_ = !StartThread(&thread_, [this] { Run(); });
  if (lacks_thread_) Complain("there is no thread left");
}

void StateFolder::Run() {
  mu_.Lock();
  while (true) {
    if (stopping_ || MonotonicNow() >= retry_at_) due_.merge(failed_);
    if (due_.empty() && stopping_) break;
    if (due_.empty() && failed_.empty()) {
      changed_.Wait(mu_);
    } else if (due_.empty()) {
      changed_.WaitUntil(mu_, retry_at_);
    } else {
      auto next = due_.extract(due_.begin());
      mu_.Unlock();
      const bool written = Write(next.key(), next.mapped());
      mu_.Lock();
      if (written || stopping_) continue;
      if (failed_.empty()) retry_at_ = MonotonicNow() + pause_;
      // Put has not seen this change, which was being written when the next run began.
      if (due_.contains(next.mapped().replaces)) next.mapped().replaces.clear();
      if (!IsOutdated(next.key())) failed_.insert(std::move(next));
    }
  }
  mu_.Unlock();
}

/// True if a newer change is due there, or one that replaces it.
bool StateFolder::IsOutdated(const std::string& path) const {
  const auto replaces = [&](const auto& change) { return change.second.replaces == path; };
  return due_.contains(path) || std::any_of(due_.begin(), due_.end(), replaces);
}

/// Returns false if it failed.
bool StateFolder::Write(const std::string& path, const Change& change) {
  std::error_code error;
  if (change.contents.empty()) {
    fs::remove(path, error);
    return !error;
  }
  fs::create_directories(folder_, error);
  if (absl::EndsWith(path, kEndEnding)) EndsIn(folder_);  // a service may run for months
  const absl::Status written = WriteFileAtomically(path, change.contents);
  if (!written.ok()) Complain(std::string(written.message()));
  // A file left by a failure here only makes the next run wait, as after a crash.
  if (written.ok() && !change.replaces.empty()) fs::remove(change.replaces, error);
  return written.ok();
}

void StateFolder::Complain(const std::string& why) {
  if (std::exchange(complained_, true)) return;
  log::Warning("the members of the job cannot be saved: ", why,
               "; if this process dies, a service that replaces it does not know which nodes to wait for");
}

void NoteEnd(const std::string& folder, const std::string& endpoint, const RememberedEnd& end) {
  if (folder.empty()) return;
  const std::string path = PathOf(folder, endpoint, end.job_id);
  const absl::StatusOr<Kept> kept = Read(path);
  if (!kept.ok() || kept->job.generation.incarnation != end.run.incarnation) return;
  // A service in this process may be about to do all of this.
  const std::string beside = PathOf(folder, endpoint, end.job_id, kEndEnding);
  const absl::StatusOr<KeptEnd> there = ReadEnd(beside);
  if (!there.ok() || there->end.run.incarnation != end.run.incarnation) {
    const absl::Status written = WriteFileAtomically(beside, EncodeEnd(endpoint, end));
    if (!written.ok()) return log::Warning("the outcome of the job cannot be saved: ", written.message());
  }
  std::error_code error;
  fs::remove(path, error);
}

std::string StateFolderOf(const std::map<std::string, std::string>& environment) {
  if (const std::string state = ValueOr(environment, "XDG_STATE_HOME"); !state.empty())
    return absl::StrCat(state, "/mtrun");
  const std::string home = ValueOr(environment, "HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.local/state/mtrun");
}

}  // namespace mtrun::rendezvous
