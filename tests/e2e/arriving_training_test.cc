// Training in the streamed order while a server still sends the data: workers start with the shards of their
// first steps and wait for others when they need them. The run equals one on a complete set.
#include <signal.h>

#include <set>

#include "datasets/cache/cache_layout.h"
#include "datasets/order/sampler.h"
#include "tests/e2e/arriving_training.h"
#include "tests/support/gated_server.h"
#include "tests/support/small_disk.h"

namespace mtrun::e2e {
namespace {

using support::GatedServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ArrivingTrainingTest : public ArrivingRuns {
 protected:
  static constexpr int kEpochs = 2;

  /// Returns the files for the first two steps, and the index.
  std::set<std::string> FirstFiles() const {
    std::set<std::string> files = {datasets::kIndexFile};
    const datasets::Sampler sampler(/*seed=*/0, {.global_batch = 12, .micro_batch = 2}, {counts_, kWindow});
    for (const int64_t step : {0, 1}) {
      for (const int64_t id : sampler.Step(0, step))
        files.insert(datasets::ShardFile("train", static_cast<size_t>(id / counts_[0])));
    }
    return files;
  }
  std::vector<std::string> Arriving(const std::string& url) const {
    return Words(order_, {"--data", url, "--cache", folder_.File("cache")});
  }

  /// Expects only waiting if the server has no more than `files` for longer than the hang timeout.
  void WaitForFirstData(const std::set<std::string>& files, const std::vector<std::string>& more) {
    GatedServer server(data_, files);
    const auto training =
        Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "0", "--hang_timeout", "10"}, "run",
              1, Words(Arriving(server.url()), more));
    ASSERT_TRUE(training->WaitForLine("the run is waiting for its data")) << training->Text();
    EXPECT_FALSE(training->WaitForLine("(--hang_timeout)", Seconds(14))) << training->Text();
    server.Open();
    EXPECT_EQ(training->Wait(Seconds(120)), 0) << training->Text();
  }
};

TEST_F(ArrivingTrainingTest, WorkersStartWithTheFirstShardsAndWaitForTheOthers) {
  ASSERT_LT(FirstFiles().size(), counts_.size());
  GatedServer server(data_, FirstFiles());
  const auto training = Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "3",
                               "--hang_notice", "4", "--hang_timeout", "12"},
                              "run", kEpochs, Arriving(server.url()));
  ASSERT_TRUE(training->WaitForLine("the run is waiting for its data, nothing is lost: "))
      << training->Text();
  for (int i = 0; i < 600 && StepsOf("run") < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(StepsOf("run"), 2) << "steps of which everything was there: " << training->Text();
  std::this_thread::sleep_for(std::chrono::seconds(5));  // longer than the hang notice
  EXPECT_LT(StepsOf("run"), kStepsPerEpoch) << "steps of which something was not";
  EXPECT_THAT(training->Text(), Not(HasSubstr("no progress for")));
  EXPECT_GT(server.refused(), 0);
  // If a worker dies now, it is replaced, and the waiting worker connects to the new one.
  const std::set<pid_t> workers = Workers();
  ASSERT_EQ(workers.size(), 2u);
  kill(*workers.begin(), SIGKILL);
  ASSERT_TRUE(training->WaitForLine("generation 1 ended: ")) << training->Text();
  server.Open();
  ASSERT_EQ(training->Wait(Seconds(120)), 0) << training->Text();
  EXPECT_THAT(training->Text(), HasSubstr("HTTP 503"));
  EXPECT_THAT(support::ReadText(folder_.File("run") + "/metrics.jsonl"), HasSubstr("{\"data_wait\":"));
  ExpectUndisturbed("run", kEpochs, order_);
}

TEST_F(ArrivingTrainingTest, WaitForTheFirstShardsIsNotAHang) {
  WaitForFirstData({datasets::kIndexFile}, {});
}

TEST_F(ArrivingTrainingTest, LongWaitForAServerIsNotAHang) { WaitForFirstData({}, {}); }

TEST_F(ArrivingTrainingTest, LongWaitForAllShardsIsNotAHang) {
  WaitForFirstData(FirstFiles(), {"--shuffle", "true"});
}

// Twenty shards of twenty-five and the test split: the six streams of two workers need eighteen at a time.
TEST_F(ArrivingTrainingTest, CacheSmallerThanTheSetIsRefilled) {
  constexpr int kMoreEpochs = 3;
  const int64_t bound = BytesOfCache(20);
  GatedServer server(data_, {});
  server.Open();
  const std::vector<std::string> flags = Words(Arriving(server.url()), SmallCache(folder_.File("cache"), 20));
  const auto training =
      Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "3"}, "run", kMoreEpochs, flags);
  int64_t most = 0;
  bool killed = false;
  std::optional<int> status;
  for (int i = 0; i < 24000 && !status; ++i) {
    most = std::max(most, BytesIn(folder_.File("cache")));
    const std::set<pid_t> workers = Workers();
    if (!killed && StepsOf("run") >= kStepsPerEpoch && workers.size() == 2) {
      killed = true;
      kill(*workers.begin(), SIGKILL);
    }
    status = training->Wait(Seconds(0.005));
  }
  ASSERT_EQ(status, 0) << training->Text();
  EXPECT_TRUE(killed);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, bound);
  EXPECT_GT(server.given(), static_cast<int>(counts_.size()) + 2) << "some came more than once";
  ExpectUndisturbed("run", kMoreEpochs, order_);
}

TEST_F(ArrivingTrainingTest, FullCacheDiskPausesTheRunAndLeavesNoPartialFile) {
  const auto disk = support::SmallDisk::Make(folder_.File("cache"), 4 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  (*disk)->Leave(16 * (LargestShard() + 4096));  // more than the first steps need, less than the first epoch
  GatedServer server(data_, {});
  server.Open();
  const auto training =
      Train({"--standalone", "--nproc_per_node", "2"}, "run", kEpochs, Arriving(server.url()));
  const auto said = training->WaitForLine("No space left on device");
  EXPECT_THAT(said.value_or(training->Text()),
              AllOf(HasSubstr("the run is waiting for its data, nothing is lost: "),
                    HasSubstr("nothing is lost, and fetching continues when there is disk space")));
  size_t whole = 0;
  for (const datasets::CachedFile& file : datasets::CachedFiles(folder_.File("cache"))) {
    if (absl::StrContains(file.path, ".part.")) continue;
    const auto name = std::filesystem::path(file.path).lexically_relative(folder_.File("cache"));
    const std::string in_set = data_ + "/" + name.lexically_relative(*name.begin()).string();
    EXPECT_EQ(support::ReadText(file.path), support::ReadText(in_set)) << in_set;
    ++whole;
  }
  EXPECT_GE(whole, FirstFiles().size() - 1);
  EXPECT_LT(whole, counts_.size());
  EXPECT_LT(StepsOf("run"), kStepsPerEpoch);
  (*disk)->Free();
  ASSERT_EQ(training->Wait(Seconds(120)), 0) << training->Text();
  ExpectUndisturbed("run", kEpochs, order_);
}

TEST_F(ArrivingTrainingTest, LongTooSmallCacheIsRefusedWithAdvice) {
  GatedServer server(data_, {});
  server.Open();
  const std::string small =
      absl::StrFormat("%.15f", static_cast<double>(BytesOfCache(10)) / (int64_t{1} << 30));
  for (const std::string order : {"streams", "true"}) {
    const auto training =
        TrainHere(1, "run", 1, Words(Arriving(server.url()), {"--cache_gib", small, "--shuffle", order}));
    EXPECT_EQ(training->Wait(Seconds(60)), 2) << training->Text();
    EXPECT_THAT(training->Text(), HasSubstr("--cache_gib"));
    EXPECT_THAT(training->Text(), HasSubstr("--shuffle streams"));
  }
}

TEST_F(ArrivingTrainingTest, LongFullShuffleWaitsForAllShards) {
  GatedServer server(data_, FirstFiles());
  const auto training = TrainHere(1, "run", 1, Words(Arriving(server.url()), {"--shuffle", "true"}));
  ASSERT_TRUE(training->WaitForLine("the run is waiting for its data")) << training->Text();
  EXPECT_FALSE(std::filesystem::exists(folder_.File("run") + "/metrics.jsonl"));
  server.Open();
  ASSERT_EQ(training->Wait(Seconds(120)), 0) << training->Text();
}

TEST_F(ArrivingTrainingTest, LongSingleWaitingWorkerSavesWhenStopped) {
  GatedServer server(data_, FirstFiles());
  std::vector<std::string> command = Trainer("run", kEpochs, Arriving(server.url()));
  command.erase(command.begin());  // --trainer, for mtrun
  command.front() = support::BinaryFolder() + "/" + program_;
  Program alone(command, Environment());
  for (int i = 0; i < 600 && StepsOf("run") < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const int steps = StepsOf("run");
  alone.Signal(SIGTERM);
  EXPECT_EQ(alone.Wait(), 128 + SIGTERM) << alone.Text();
  EXPECT_THAT(alone.Text(), HasSubstr(absl::StrCat("stopped at step ", steps, " of ")));
  server.Open();
  Program again(command, Environment());
  ASSERT_EQ(again.Wait(Seconds(120)), 0) << again.Text();
  EXPECT_THAT(again.Text(), HasSubstr(absl::StrCat("at step ", steps)));
  ExpectUndisturbed("run", kEpochs, order_);
}

TEST_F(ArrivingTrainingTest, LongMissingShardEndsTheRunWhenItIsNeeded) {
  std::filesystem::remove(data_ + "/test/shard_00000.safetensors");
  GatedServer server(data_, {});
  server.Open();
  const auto training = TrainHere(1, "run", 1, Arriving(server.url()));
  EXPECT_NE(training->Wait(Seconds(120)), 0) << training->Text();
  EXPECT_THAT(training->Text(), HasSubstr("test/shard_00000.safetensors"));
  EXPECT_EQ(StepsOf("run"), kStepsPerEpoch) << training->Text();
}

}  // namespace
}  // namespace mtrun::e2e
