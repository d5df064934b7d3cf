// Training from a server over a network, through a cache that is smaller than the set, while all of them
// fail: the run equals the undisturbed one.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <random>

#include "base/posix.h"
#include "datasets/cache/cache_layout.h"
#include "tests/e2e/arriving_training.h"
#include "tests/support/faulty_link.h"

namespace mtrun::e2e {
namespace {

using support::FaultyLink;
using testing::HasSubstr;

constexpr Seconds kAWhile{0.3};

class FaultyDataTest : public ArrivingRuns {
 protected:
  FaultyDataTest() : ArrivingRuns(/*scale=*/3) {}
  void SetUp() override {
    ArrivingRuns::SetUp();
    const auto index = datasets::ReadIndex(data_);
    ASSERT_TRUE(index.ok()) << index.status();
    for (const auto& [file, entry] : datasets::ShardsOf(*index))
      entries_[absl::StrCat(datasets::IndexDigest(*index), "/", file)] = entry;
    server_ = Serve();
  }
  void TearDown() override {
    server_.reset();
    ArrivingRuns::TearDown();
  }

  std::unique_ptr<Program> Serve() const {
    auto server = std::make_unique<Program>(
        std::vector<std::string>{support::BinaryFolder() + "/mtdata", "serve", folder_.path(), "--listen",
                                 absl::StrCat("127.0.0.1:", server_port_)},
        Environment());
    EXPECT_TRUE(server->WaitForLine("use one with")) << server->Text();
    return server;
  }
  std::unique_ptr<Program> TrainOverTheLink(const std::string& run, int epochs,
                                            const std::vector<std::string>& more,
                                            const support::Overlay& overlay = {}) {
    const std::vector<std::string> from = {"--data",
                                           absl::StrCat("https://127.0.0.1:", link_.port(), "/data")};
    return Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "10"}, run, epochs,
                 Words(Words(order_, from), Words(SmallCache(cache_, kShardsInCache), more)), overlay);
  }
  std::vector<pid_t> Fetchers() const {
    std::vector<pid_t> fetchers;
    for (const pid_t pid : mark_.Alive()) {
      const std::string line = support::ReadText(absl::StrCat("/proc/", pid, "/cmdline"));
      if (absl::StrContains(line, "--node")) fetchers.push_back(pid);
    }
    return fetchers;
  }
  /// Returns whether data has recently come through the link.
  bool SomethingComes() const {
    const int64_t before = link_.carried();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return link_.carried() > before;
  }

  static constexpr int64_t kShardsInCache = 20;
  const int server_port_ = support::FreePort();
  const std::string cache_ = folder_.File("cache");
  std::map<std::string, datasets::ShardEntry> entries_;  // by path in the cache
  FaultyLink link_{"127.0.0.1", 0, server_port_};
  std::unique_ptr<Program> server_;
};

/// The faults. Each returns whether it could strike something active; if so, it has struck once.
class DataStorm : public FaultyDataTest {
 protected:
  struct Kind {
    std::string name;
    int times;
    std::function<bool()> strike;
    int struck = 0;
  };

  bool KillServer() {
    if (!SomethingComes()) return false;
    server_->Signal(SIGKILL);
    server_->Wait();
    server_ = Serve();
    return true;
  }
  bool StopServer() {
    if (!SomethingComes()) return false;
    server_->Signal(SIGSTOP);
    std::this_thread::sleep_for(kAWhile);
    server_->Signal(SIGCONT);
    return true;
  }
  bool CutLink() { return SomethingComes() && link_.Cut() > 0; }
  bool Disturb(FaultyLink::Mode mode) {
    if (!SomethingComes()) return false;
    link_.Set(mode);
    std::this_thread::sleep_for(kAWhile);
    link_.Set(FaultyLink::Mode::kCarries);
    return true;
  }
  bool ChangeAByte() {
    const int before = link_.changed();
    link_.ChangeNext();
    for (int i = 0; i < 2000 && link_.changed() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return link_.changed() > before;
  }
  bool KillFetcher() {
    const std::vector<pid_t> fetchers = Fetchers();
    if (fetchers.empty() || !SomethingComes()) return false;
    for (const pid_t pid : fetchers) kill(pid, SIGKILL);
    return true;
  }

  /// Stops all fetchers, so that no file is renamed while the test writes to it.
  bool StopFetchers(const std::vector<pid_t>& fetchers) {
    for (const pid_t pid : fetchers) kill(pid, SIGSTOP);
    return std::all_of(fetchers.begin(), fetchers.end(), [](pid_t pid) {
      for (int i = 0; i < 1000; ++i) {
        const std::string stat = support::ReadText(absl::StrCat("/proc/", pid, "/stat"));
        const size_t name_end = stat.rfind(')');
        if (name_end == std::string::npos) return false;
        if (stat.compare(name_end, 3, ") T") == 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return false;
    });
  }
  /// Damages a partial shard while its fetcher is stopped; the fetcher then continues or dies.
  bool DamagePart(bool die) {
    const std::vector<pid_t> fetchers = Fetchers();
    if (fetchers.empty()) return false;
    const bool stopped = StopFetchers(fetchers);
    bool damaged = false;
    for (const datasets::CachedFile& file : datasets::CachedFiles(cache_)) {
      if (!stopped || damaged || file.bytes == 0 || !absl::StrContains(file.path, ".part.")) continue;
      const UniqueFd fd(open(file.path.c_str(), O_WRONLY | O_CLOEXEC));
      const bool comes = fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0;  // its fetcher has it
      damaged = comes && pwrite(fd.get(), "damage", 6, 0) == 6;
    }
    for (const pid_t pid : fetchers) kill(pid, damaged && die ? SIGKILL : SIGCONT);
    return damaged;
  }

  /// Returns a locked descriptor of a whole shard that is not being read; the lock prevents new readers.
  UniqueFd TakeIdleShard() {
    std::vector<datasets::CachedFile> files = datasets::CachedFiles(cache_);
    std::shuffle(files.begin(), files.end(), random_);
    for (const datasets::CachedFile& file : files) {
      const auto entry = entries_.find(file.path.substr(cache_.size() + 1));
      if (entry == entries_.end()) continue;
      UniqueFd fd(open(file.path.c_str(), O_RDWR | O_CLOEXEC));
      struct stat info {};
      const bool idle = fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0 &&
                        datasets::IsUntouched(fd, entry->second) && fstat(fd.get(), &info) == 0;
      if (idle && info.st_nlink > 0) return fd;
    }
    return UniqueFd();
  }
  bool DamageShard() {
    const UniqueFd shard = TakeIdleShard();
    return shard.valid() && pwrite(shard.get(), "damage", 6, 1000) == 6;
  }
  bool CutShard() {
    const UniqueFd shard = TakeIdleShard();
    return shard.valid() && ftruncate(shard.get(), 50) == 0;
  }
  /// Removes a shard, even if it is being read: its readers keep it.
  bool RemoveShard() {
    std::vector<datasets::CachedFile> files = datasets::CachedFiles(cache_);
    std::erase_if(files, [](const auto& file) { return absl::StrContains(file.path, ".part."); });
    return !files.empty() && unlink(files[random_() % files.size()].path.c_str()) == 0;
  }

  std::vector<Kind> Kinds() {
    return {{"the server killed", 10, [this] { return KillServer(); }},
            {"the server stopped for a while", 8, [this] { return StopServer(); }},
            {"connections cut", 12, [this] { return CutLink(); }},
            {"a byte changed on its way", 10, [this] { return ChangeAByte(); }},
            {"nothing carried for a while", 8, [this] { return Disturb(FaultyLink::Mode::kHolds); }},
            {"connections refused for a while", 8, [this] { return Disturb(FaultyLink::Mode::kRefuses); }},
            {"the fetcher killed", 10, [this] { return KillFetcher(); }},
            {"a part damaged, its fetcher continues", 8, [this] { return DamagePart(/*die=*/false); }},
            {"a part damaged, its fetcher killed", 8, [this] { return DamagePart(/*die=*/true); }},
            {"a shard damaged", 8, [this] { return DamageShard(); }},
            {"a shard cut", 4, [this] { return CutShard(); }},
            {"a shard removed", 6, [this] { return RemoveShard(); }}};
  }
  /// Injects the faults in random order, with a step of the run between two. A fault that cannot strike now
  /// is retried until it can.
  void Rage(std::vector<Kind>& kinds, Program& training) {
    std::vector<Kind*> plan;
    for (Kind& kind : kinds) plan.insert(plan.end(), static_cast<size_t>(kind.times), &kind);
    ASSERT_EQ(plan.size(), 100u);
    std::shuffle(plan.begin(), plan.end(), random_);
    for (Kind* const kind : plan) {
      const int steps = StepsOf("run");
      while (StepsOf("run") == steps) ASSERT_FALSE(training.Wait(Seconds(0.005))) << training.Text();
      while (!kind->strike()) ASSERT_FALSE(training.Wait(Seconds(0.005))) << kind->name << training.Text();
      ++kind->struck;
    }
  }
  static std::mt19937_64 Seeded() {
    const char* given = std::getenv("MTRUN_SEED");
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "MTRUN_SEED=" << seed << std::endl;
    return std::mt19937_64(seed);
  }

  std::mt19937_64 random_ = Seeded();
};

/// Measures the cache's size continuously.
class CacheWatch {
 public:
  CacheWatch(const std::string& cache, std::function<int64_t(const std::string&)> bytes_in)
      : thread_([this, cache, bytes_in = std::move(bytes_in)] {
          for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
            most_ = std::max(most_, bytes_in(cache));
        }) {}
  ~CacheWatch() { Most(); }
  int64_t Most() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return most_;
  }

 private:
  std::atomic<bool> over_ = false;
  int64_t most_ = 0;  // used only by the thread while it runs
  std::thread thread_;
};

TEST_F(DataStorm, LongOneHundredFaultsDoNotChangeTheRun) {
  constexpr int kEpochs = 120;  // 1080 steps of at least 0.2 s: some faults can strike only rarely
  const auto training = TrainOverTheLink("run", kEpochs, {}, {{"MTRUN_PACE", "0.2"}});
  ASSERT_TRUE(training->WaitForLine("epoch 1/")) << training->Text();
  const std::set<pid_t> workers = Workers();
  CacheWatch watch(cache_, BytesIn);
  std::vector<Kind> kinds = Kinds();
  Rage(kinds, *training);
  for (const Kind& kind : kinds) EXPECT_EQ(kind.struck, kind.times) << kind.name;
  std::cout << "all have struck by step " << StepsOf("run") << std::endl;
  EXPECT_EQ(Workers(), workers) << "what fails there costs waiting, no worker: " << training->Text();
  ASSERT_EQ(training->Wait(Seconds(300)), 0) << training->Text();
  EXPECT_LE(watch.Most(), BytesOfCache(kShardsInCache));
  EXPECT_EQ(link_.changed(), 10);
  const std::string fetcher = support::ReadText(cache_ + "/" + datasets::FetcherFile("log"));
  for (const char* seen : {"was modified after it was verified", "does not have the SHA-256 in the index"})
    EXPECT_THAT(fetcher, HasSubstr(seen));
  EXPECT_THAT(support::ReadText(folder_.File("run") + "/metrics.jsonl"), HasSubstr("{\"data_wait\":"));
  ExpectUndisturbed("run", kEpochs, order_);
}

TEST_F(FaultyDataTest, DiffusionTrainsThroughAServerOutage) {
  constexpr int kEpochs = 2;
  program_ = "diffusion";
  const std::vector<std::string> network = {
      "--channels", "8", "--mults", "1,2", "--attention", "0", "--sample_steps", "2", "--sample_count", "4"};
  const auto training = TrainOverTheLink("run", kEpochs, network);
  for (int i = 0; i < 600 && StepsOf("run") < 2; ++i) ASSERT_FALSE(training->Wait(Seconds(0.1)));
  while (!SomethingComes()) ASSERT_FALSE(training->Wait(Seconds(0.005))) << training->Text();
  server_->Signal(SIGKILL);
  ASSERT_TRUE(server_->Wait());
  ASSERT_TRUE(training->WaitForLine("the run is waiting for its data, nothing is lost: "))
      << training->Text();
  server_ = Serve();
  ASSERT_EQ(training->Wait(Seconds(120)), 0) << training->Text();
  ExpectUndisturbed("run", kEpochs, Words(order_, network));
}

}  // namespace
}  // namespace mtrun::e2e
