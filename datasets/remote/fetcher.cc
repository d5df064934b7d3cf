#include "datasets/remote/fetcher.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/remote/cached_set.h"
#include "datasets/remote/fetch_job.h"
#include "datasets/remote/fetch_plan.h"
#include "datasets/remote/fetch_rules.h"
#include "datasets/remote/fetcher_door.h"
#include "datasets/remote/origin.h"
#include "datasets/remote/transfers.h"

namespace mtrun::datasets {
namespace {

constexpr Duration kFullPause = std::chrono::seconds(1);
constexpr Duration kMaxWait = std::chrono::seconds(10), kLookAtSpeed = std::chrono::seconds(1);

/// One URL with its secrets.
struct Source {
  Origin origin;
  Trust trust;
  bool proven = false;  // a transfer has succeeded: trust is not lowered any more
  std::string trouble = "";
  std::string digest = "";  // the set that it served last
};

struct Client {
  std::string source;
  std::string set;  // empty before its index is cached
  std::vector<std::string> wanted;
};

using Job = FetchJob;

/// Returns the message for data that could not be stored here.
std::string NotWritten(const absl::Status& why) {
  return absl::StrCat(why.message(),
                      absl::IsResourceExhausted(why) && !IsAtSizeLimit(why)
                          ? "; nothing is lost, and fetching continues when there is disk space"
                          : "; it will be tried again");
}

class Fetcher {
 public:
  Fetcher(const FetcherOptions& options, FetcherDoor door)
      : options_(options), door_(std::move(door)), plan_(options.connections) {}

  void Run() {
    TimePoint alone = MonotonicNow();
    while (true) {
      const TimePoint now = MonotonicNow();
      if (door_.clients() > 0) alone = now;
      if (now - alone >= options_.linger) break;
      StartTransfers(now);
      Duration timeout = std::min<Duration>(kMaxWait, alone + options_.linger - now);
      if (!jobs_.empty()) timeout = std::min<Duration>(timeout, kLookAtSpeed);
      if (const auto look = plan_.NextLook(now)) timeout = std::min<Duration>(timeout, *look - now);
      std::vector<pollfd> waits = door_.Waits();
      for (const Transfers::Ended& ended : transfers_.Wait(waits, std::max(timeout, Duration::zero())))
        OnEnd(ended.id, ended.end);
      LookAtSpeed(MonotonicNow());
      for (FetcherDoor::News& news : door_.Hear()) OnNews(news);
    }
    door_.Close();
  }

 private:
  // ---- clients

  void OnNews(FetcherDoor::News& news) {
    if (!news.message) {
      clients_.erase(news.client);
      return plan_.Leave(news.client);
    }
    if (const auto* open = std::get_if<fetch::Open>(&*news.message)) OnOpen(news.client, *open);
    if (auto* want = std::get_if<fetch::Want>(&*news.message)) OnWant(news.client, std::move(want->files));
  }

  void OnOpen(int64_t client, const fetch::Open& open) {
    const std::string key = Sha256Hex(fetch::Encode(open));
    if (sources_.count(key) == 0) {
      absl::StatusOr<Origin> origin = Origin::Make(open);
      absl::Status usable = origin.status();
      if (usable.ok() && origin->url().scheme == "s3") usable = Transfers::CheckSigning();
      if (!usable.ok()) return door_.Send(client, fetch::Failed{std::string(usable.message())});
      Source source{.origin = *origin, .trust = origin->first_trust()};
      sources_.emplace(key, std::move(source));
    }
    clients_[client] = {.source = key, .set = "", .wanted = {}};
    Source& source = sources_.at(key);
    // A client that failed may reconnect because the server was replaced.
    if (!source.proven && !plan_.under_way({key, kIndexFile})) source.trust = source.origin.first_trust();
    if (!source.trouble.empty()) door_.Send(client, fetch::Trouble{source.trouble});
    plan_.Want(client, key, {kIndexFile});
  }

  void OnWant(int64_t number, std::vector<std::string> files) {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;
    found->second.wanted = std::move(files);
    if (!found->second.set.empty()) PlanFor(number, found->second);
  }

  /// Plans the files that the client wants and that are not cached.
  void PlanFor(int64_t number, const Client& client) {
    const CachedSet& set = sets_.at(client.set);
    std::vector<std::string> missing;
    for (const std::string& file : client.wanted) {
      if (set.Find(file) == nullptr)
        return door_.Send(number, fetch::Failed{absl::StrCat("the set has no file ", file)});
      if (set.Has(file)) {
        door_.Send(number, fetch::Here{file});
      } else {
        if (!plan_.under_way({client.set, file})) set.SetAside(file);
        missing.push_back(file);
      }
    }
    plan_.Want(number, client.set, std::move(missing));
  }

  void SetTrouble(const std::string& key, const std::string& text) {
    Source& source = sources_.at(key);
    if (source.trouble == text) return;
    if (!text.empty()) log::Warning(text);
    source.trouble = text;
    for (const auto& [number, client] : clients_) {
      if (client.source == key) door_.Send(number, fetch::Trouble{text});
    }
  }

  // ---- transfers

  void StartTransfers(TimePoint now) {
    while (const std::optional<FetchId> id = plan_.Next(now)) Begin(*id, now);
  }

  const std::string& SourceOf(const FetchId& id) const {
    const auto found = source_of_.find(id.set);
    return found == source_of_.end() ? id.set : found->second;
  }

  void Begin(const FetchId& id, TimePoint now) {
    Job job{.id = id, .source = SourceOf(id), .part = {}, .text = "", .refused = {}};
    if (id.file != kIndexFile) {
      // Another client may use the same set through another URL, or another machine may have fetched it.
      if (sets_.at(id.set).Has(id.file)) return OnHere(job);
      if (Comes(id)) return plan_.Pause(id, now + kFullPause);
      const absl::Status begun = BeginPart(job);
      if (!begun.ok()) {
        SetTrouble(job.source, NotWritten(begun));
        return plan_.Pause(id, now + kFullPause);
      }
      if (job.part->size() == sets_.at(id.set).Find(id.file)->bytes) return OnWhole(job);
    }
    const Source& source = sources_.at(job.source);
    FetchRequest request = source.origin.RequestFor(id.file, source.trust);
    request.fresh = id.file == kIndexFile || wrong_.count(id) != 0;
    Start(std::move(job), std::move(request));
  }

  /// Returns true if a transfer for another source is fetching the same file.
  bool Comes(const FetchId& id) const {
    const std::string path = sets_.at(id.set).PathOf(id.file);
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
      const Job& job = entry.second;
      return job.part && sets_.at(job.id.set).PathOf(job.id.file) == path;
    });
  }

  absl::Status BeginPart(Job& job) {
    const CachedSet& set = sets_.at(job.id.set);
    const ShardEntry& entry = *set.Find(job.id.file);
    MT_ASSIGN_OR_RETURN(PartFile part, PartFile::Open(set.PathOf(job.id.file), entry));
    MT_RETURN_IF_ERROR(Room(job, entry.bytes - part.size() + UnderWay(), /*full=*/false));
    job.part.emplace(std::move(part));
    return absl::OkStatus();
  }

  /// Returns the bytes that transfers under way will still bring.
  int64_t UnderWay() const {
    int64_t bytes = 0;
    for (const auto& [number, job] : jobs_) {
      if (job.part) bytes += sets_.at(job.id.set).Find(job.id.file)->bytes - job.part->size();
    }
    return bytes;
  }

  absl::Status Room(const Job& job, int64_t need, bool full) const {
    std::set<std::string> keep;
    for (const auto& [number, client] : clients_) {
      if (client.set.empty()) continue;
      for (const std::string& file : client.wanted) keep.insert(sets_.at(client.set).PathOf(file));
    }
    const auto may_go = [&](const std::string& path) { return keep.count(WholeOf(path)) == 0; };
    return MakeRoom(options_.cache, need, sources_.at(job.source).origin.open().cache_bytes, full, may_go);
  }

  void Start(Job made, FetchRequest request) {
    const int64_t number = next_++;
    Job& job = jobs_.emplace(number, std::move(made)).first->second;
    if (job.part) request.from = job.part->size();
    job.watch.emplace(MonotonicNow());
    transfers_.Start(number, request,
                     [&job](int64_t offset, std::string_view bytes) { return job.Take(offset, bytes); });
  }

  /// Reports a slow transfer once, unless other trouble of its source is being reported.
  void LookAtSpeed(TimePoint now) {
    for (auto& [number, job] : jobs_) {
      const std::optional<double> rate = job.watch->Look(now, transfers_.Received(number));
      const Source& source = sources_.at(job.source);
      if (rate && job.slow.empty() && source.trouble.empty()) {
        job.slow = SlowText(source.origin.UrlOf(job.id.file), *rate);
        SetTrouble(job.source, job.slow);
      } else if (!rate && !job.slow.empty()) {
        if (source.trouble == job.slow) SetTrouble(job.source, "");
        job.slow.clear();
      }
    }
  }

  void OnEnd(int64_t number, const TransferEnd& end) {
    Job job = std::move(jobs_.at(number));
    jobs_.erase(number);
    Source& source = sources_.at(job.source);
    if (end.link == TransferEnd::Link::kUntrusted && source.trust == Trust::kDataKey && !source.proven) {
      source.trust = Trust::kSystem;  // not an mtrun server with this token: treat it as any web server
      return plan_.Pause(job.id, MonotonicNow());
    }
    const std::string url = source.origin.UrlOf(job.id.file);
    if (absl::IsDataLoss(job.refused)) {
      if (!job.part) return Fail(job, absl::StrCat(url, " ", job.refused.message()));
      return OnWrong(job, job.refused);
    }
    if (end.link == TransferEnd::Link::kNotWritten) return OnNotWritten(job);
    const bool came = end.link == TransferEnd::Link::kOk && end.status / 100 == 2;
    const Tries tries = came ? Tries() : plan_.CountTry(job.id, end);
    const Judgement verdict = JudgeTransfer(end, url, tries.missing, source.proven);
    switch (verdict.kind) {
      case Judgement::Kind::kDone:
        source.proven = true;
        SetTrouble(job.source, "");
        return job.part ? OnWhole(job) : OnIndex(job);
      case Judgement::Kind::kAgain:
        return OnAgain(job, verdict, end, tries.all);
      case Judgement::Kind::kRestart:
        if (job.part) job.part->Restart().IgnoreError();
        return plan_.Pause(job.id, MonotonicNow());
      case Judgement::Kind::kFollow:
        return Follow(std::move(job), end.location);
      case Judgement::Kind::kNever:
        return Fail(job, verdict.text);
    }
  }

  void OnAgain(const Job& job, const Judgement& verdict, const TransferEnd& end, int tries) {
    SetTrouble(job.source, verdict.text);
    const double random = static_cast<double>(RandomBits() >> 11) * 0x1p-53;
    plan_.Pause(job.id, MonotonicNow() + PauseBefore(tries, random, end.wait_seconds));
    // A run that restarts while the server is unreachable can use the cached set. If something answers, which
    // may be another program on the server's port, use it only if this source served that set before.
    if (job.part) return;
    const Source& source = sources_.at(job.source);
    absl::StatusOr<CachedSet> known = CachedSet::Remembered(options_.cache, source.origin.open().url);
    if (!known.ok()) return;
    if (end.link != TransferEnd::Link::kBroken && known->digest() != source.digest) return;
    log::Warning("cannot read the index from the server: using the data set ", known->digest().substr(0, 12),
                 " from the cache");
    Adopt(job.source, *std::move(known));
    plan_.Done(job.id);
  }

  void Follow(Job job, const std::string& location) {
    const Source& source = sources_.at(job.source);
    absl::StatusOr<FetchRequest> request = source.origin.Redirected(location, source.trust, job.hops++);
    if (!request.ok()) {
      return Fail(job, absl::StrCat(source.origin.UrlOf(job.id.file),
                                    " redirects, which is not followed: ", request.status().message()));
    }
    Start(std::move(job), *std::move(request));
  }

  void OnNotWritten(const Job& job) {
    // Other files' space does not help a file at its size limit.
    const bool full = absl::IsResourceExhausted(job.refused) && !IsAtSizeLimit(job.refused);
    // Evict only for a wanted file: otherwise it would also evict the part of the next file.
    const int64_t need =
        job.part ? sets_.at(job.id.set).Find(job.id.file)->bytes : static_cast<int64_t>(job.text.size());
    const absl::Status room = full && plan_.IsWanted(job.id) ? Room(job, need, /*full=*/true) : job.refused;
    SetTrouble(job.source, room.ok() ? "" : NotWritten(job.refused));
    plan_.Pause(job.id, MonotonicNow() + (room.ok() ? Duration::zero() : kFullPause));
  }

  /// The server has sent the whole file.
  void OnWhole(Job& job) {
    const bool resumed = job.part->resumed();
    const absl::Status finished = job.Finish();
    if (absl::IsAborted(finished)) return OnWrong(job, finished, /*resumed=*/true);
    if (absl::IsDataLoss(finished)) return OnWrong(job, finished, resumed);
    if (!finished.ok()) return OnNotWritten(job);
    OnHere(job);
  }

  void OnHere(const Job& job) {
    wrong_.erase(job.id);
    SetTrouble(job.source, "");
    plan_.Done(job.id);
    for (const auto& [number, client] : clients_) {
      if (client.set == job.id.set) door_.Send(number, fetch::Here{job.id.file});
    }
  }

  /// Handles bytes that do not match the index.
  void OnWrong(Job& job, const absl::Status& why, bool resumed = false) {
    if (job.part) job.part->Restart().IgnoreError();
    WrongCopies& wrong = wrong_[job.id];
    ++(resumed ? wrong.resumed : wrong.whole);
    const std::string url = sources_.at(job.source).origin.UrlOf(job.id.file);
    log::Warning(url, ": ", why.message());
    if (!wrong.Hopeless()) return plan_.Pause(job.id, MonotonicNow());
    Fail(job, absl::StrCat(url, " was received ", wrong.whole + wrong.resumed,
                           " times and never matched its index.json (", why.message(),
                           "): the file is damaged on the server, or was replaced; run `mtdata verify` on "
                           "the server"));
  }

  void OnIndex(Job& job) {
    const std::string url = sources_.at(job.source).origin.open().url;
    absl::StatusOr<CachedSet> set = CachedSet::Make(options_.cache, job.text);
    if (absl::IsInvalidArgument(set.status()) || absl::IsDataLoss(set.status()))
      return Fail(job, absl::StrCat(url, "/", kIndexFile, ": ", set.status().message()));
    job.refused = set.status();
    if (job.refused.ok()) job.refused = set->Remember(options_.cache, url);
    if (!job.refused.ok()) return OnNotWritten(job);
    log::Info(url, " is the data set ", set->digest().substr(0, 12));
    sources_.at(job.source).digest = set->digest();
    plan_.Done(job.id);
    Adopt(job.source, *std::move(set));
  }

  /// Announces the set to the clients that wait for the index of this source.
  void Adopt(const std::string& source, CachedSet set) {
    const std::string key = source + "/" + set.digest(), digest = set.digest();
    sets_.insert_or_assign(key, std::move(set));
    source_of_[key] = source;
    for (auto& [number, client] : clients_) {
      if (client.source != source || !client.set.empty()) continue;
      client.set = key;
      door_.Send(number, fetch::Opened{digest});
      PlanFor(number, client);
    }
  }

  /// Returns true if the client wants the file; a client without a set wants the index.
  static bool Wants(const Client& client, const FetchId& id) {
    if (client.set.empty()) return client.source == id.set;
    return client.set == id.set &&
           std::find(client.wanted.begin(), client.wanted.end(), id.file) != client.wanted.end();
  }

  /// Fails the clients that wait for the file; for the others, clears the trouble.
  void Fail(const Job& job, const std::string& text) {
    log::Error(text);
    SetTrouble(job.source, "");
    for (const auto& [number, client] : clients_) {
      if (Wants(client, job.id)) door_.Send(number, fetch::Failed{text});
    }
    wrong_.erase(job.id);
    plan_.Done(job.id);
  }

  const FetcherOptions options_;
  FetcherDoor door_;
  FetchPlan plan_;
  std::map<std::string, Source> sources_;         // by the hash of URL and secrets
  std::map<std::string, CachedSet> sets_;         // by source and digest
  std::map<std::string, std::string> source_of_;  // of each set
  std::map<int64_t, Client> clients_;
  std::map<int64_t, Job> jobs_;
  std::map<FetchId, WrongCopies> wrong_;
  int64_t next_ = 0;
  Transfers transfers_;  // last: its sinks write into jobs
};

}  // namespace

absl::Status RunFetcher(const FetcherOptions& options, const std::function<void()>& ready) {
  absl::StatusOr<FetcherDoor> door = FetcherDoor::Open(options.cache);
  if (absl::IsAlreadyExists(door.status())) {
    ready();
    return absl::OkStatus();
  }
  MT_RETURN_IF_ERROR(door.status());
  Fetcher fetcher(options, *std::move(door));  // fails if libcurl is missing
  ready();
  fetcher.Run();
  return absl::OkStatus();
}

}  // namespace mtrun::datasets
