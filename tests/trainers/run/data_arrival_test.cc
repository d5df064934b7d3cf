#include "trainers/run/arrival/data_arrival.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/packed/packed_writer.h"
#include "tests/support/program.h"
#include "tests/trainers/support/fake_fetcher.h"

namespace mtrun::trainers {
namespace {

using datasets::PackedSplit;
using ::testing::ElementsAreArray;
using testing::FakeFetcher;

/// 40 images in shards of two, giving 5 steps of 8 in micro-batches of 2, and another split of one shard.
class DataArrivalTest : public ::testing::Test {
 protected:
  DataArrivalTest() { shape_.splits = {{"train", 40}, {"test", 1}}; }
  void SetUp() override {
    auto writer = datasets::PackedWriter::Create(set_, shape_, {.shard_bytes = 2 * 11});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [split, images] : shape_.splits) {
      const auto count = static_cast<size_t>(images);
      ASSERT_TRUE(
          (*writer)->Put(split, 0, std::vector<int64_t>(count, 0), std::vector<uint8_t>(3 * count, 7)).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    fetcher_ = std::make_unique<FakeFetcher>(cache_, set_);
    const absl::Status opened = client_.Open(nullptr);
    ASSERT_TRUE(opened.ok()) << opened;
    auto train = PackedSplit::OpenIndex(client_.folder(), "train"),
         test = PackedSplit::OpenIndex(client_.folder(), shape_.splits.count("test") != 0 ? "test" : "train");
    ASSERT_TRUE(train.ok() && test.ok());
    train_.emplace(*std::move(train));
    test_.emplace(*std::move(test));
    Begin({});
  }
  void Begin(const DataBounds& bounds) {
    arrival_.emplace(client_, "https://host/set", std::vector<PackedSplit*>{&*train_, &*test_}, order_,
                     bounds);
  }
  int64_t shard_bytes() const { return client_.index().splits.at("train").shards.front().bytes; }
  std::vector<std::string> FilesOf(const std::vector<int64_t>& shards) const {
    std::vector<std::string> files;
    for (const int64_t shard : shards)
      files.push_back(datasets::ShardFile("train", static_cast<size_t>(shard)));
    return files;
  }
  /// Returns the shards that rank 0 of two needs, from the beginning on.
  datasets::ShardsAhead Ahead() const {
    return datasets::StreamOrder(order_.seed, order_.plan, {train_->shard_counts(), order_.window})
        .Ahead(0, 0, 0, 2);
  }
  std::vector<int64_t> IdsOf(int64_t step) const {
    const datasets::Sampler sampler(order_.seed, order_.plan, {train_->shard_counts(), order_.window});
    std::vector<int64_t> ids = sampler.MicroBatch(0, step, 0);
    for (const int64_t id : sampler.MicroBatch(0, step, 1)) ids.push_back(id);
    return ids;
  }
  int64_t Here() const {
    int64_t here = 0;
    for (int64_t i = 0; i < train_->size(); ++i) here += train_->has(i) ? 1 : 0;
    return here;
  }

  datasets::PackedShape shape_{.height = 1, .width = 1, .classes = {"a"}};
  const support::TemporaryFolder folder_;
  const std::string set_ = folder_.File("set"), cache_ = folder_.File("cache");
  const DataArrival::Order order_{.seed = 3, .plan = {.global_batch = 8, .micro_batch = 2}, .window = 1};
  std::unique_ptr<FakeFetcher> fetcher_;
  datasets::SetClient client_{{.cache = cache_, .open = {.url = "https://host/set"}, .fetcher = {"false"}}};
  std::optional<PackedSplit> train_, test_;
  std::optional<DataArrival> arrival_;
};

TEST_F(DataArrivalTest, StepWaitsForItsShardsWhichAreRequestedInOrderOfNeed) {
  const datasets::ShardsAhead ahead = Ahead();
  std::vector<std::string> order = FilesOf(ahead.this_epoch);
  order.push_back("test/shard_00000.safetensors");
  for (const std::string& file : FilesOf(ahead.later)) order.push_back(file);
  ASSERT_TRUE(arrival_->Follow(0, 0, 2).ok());
  int looks = 0;
  const absl::Status came = arrival_->AwaitStep(0, 0, 2, [&] {
    if (++looks == 1) fetcher_->Let(FilesOf(ahead.this_epoch));
    return absl::OkStatus();
  });
  ASSERT_TRUE(came.ok()) << came;
  EXPECT_GT(looks, 0);
  EXPECT_GT(arrival_->TakeWaited(), Duration::zero());
  EXPECT_EQ(arrival_->TakeWaited(), Duration::zero());
  for (const int64_t id : IdsOf(0)) EXPECT_TRUE(train_->has(id)) << id;
  EXPECT_THAT(fetcher_->wants().at(0), ElementsAreArray(order));

  // Shards that have arrived since are added without a wait for the rest.
  for (int64_t step = 1; step < 5; ++step) ASSERT_TRUE(arrival_->AwaitStep(step, 0, 2, nullptr).ok());
  EXPECT_GE(Here(), 20);
  EXPECT_LT(Here(), 40) << "others' shards";
}

TEST_F(DataArrivalTest, ShardsOfLaterStepsCauseNoNewRequests) {
  ASSERT_TRUE(arrival_->Follow(0, 0, 2).ok());
  std::set<std::string> needed, others;
  for (const int64_t id : IdsOf(0))
    needed.insert(datasets::ShardFile("train", static_cast<size_t>(train_->shard_of(id))));
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) others.insert(file);
  for (const std::string& file : needed) others.erase(file);
  fetcher_->Let({others.begin(), others.end()});
  // By then every arrival has been processed, however they are batched.
  const size_t patience = 2 * others.size();
  size_t looks = 0;
  const absl::Status ended = arrival_->AwaitStep(0, 0, 2, [&] {
    return ++looks < patience ? absl::OkStatus() : absl::UnavailableError("the group is no more");
  });
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_LE(fetcher_->wants().size(), 3u) << "at first, as what is needed next, and as what is waited for";
  fetcher_->Let({needed.begin(), needed.end()});
  EXPECT_TRUE(arrival_->AwaitStep(0, 0, 2, nullptr).ok());
}

TEST_F(DataArrivalTest, RequestsAheadStayWithinTheBound) {
  Begin({.ahead = 5 * shard_bytes()});
  ASSERT_TRUE(arrival_->Follow(0, 0, 2).ok());
  const std::vector<std::string> needed = FilesOf(Ahead().this_epoch);
  fetcher_->Let(needed);
  for (int64_t step = 0; step < 5; ++step) ASSERT_TRUE(arrival_->AwaitStep(step, 0, 2, nullptr).ok());
  // This includes what the evaluation after the last step needs.
  std::set<std::string> wanted;
  for (int i = 0; i < 1000 && wanted.count("test/shard_00000.safetensors") == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const auto& files : fetcher_->wants()) {
      wanted.insert(files.begin(), files.end());
      EXPECT_LE(files.size(), 8u) << "of two steps of two streams, and one";
    }
  }
  EXPECT_EQ(wanted.count("test/shard_00000.safetensors"), 1u);
  EXPECT_EQ(fetcher_->wants().front().size(), 5u);
  EXPECT_LE(wanted.size(), needed.size() + 5) << "the share of this worker, and what it is ahead of it";
}

TEST_F(DataArrivalTest, SmallCacheIsRefilledRepeatedly) {
  Begin({.ahead = 6 * shard_bytes(), .hold = 9 * shard_bytes()});
  std::vector<std::string> all;
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) all.push_back(file);
  fetcher_->Let(all);
  ASSERT_TRUE(arrival_->AwaitImages(*test_, 1, nullptr).ok());
  std::set<int64_t> seen;
  for (int64_t step = 0; step < 10; ++step) {  // two epochs
    // From the fourth step on the worker is alone, so all streams are its own.
    const int world = step < 3 ? 2 : 1;
    ASSERT_TRUE(arrival_->Follow(step, 0, world).ok());
    ASSERT_TRUE(arrival_->AwaitStep(step, 0, world, nullptr).ok()) << step;
    const datasets::Sampler sampler(order_.seed, order_.plan, {train_->shard_counts(), order_.window});
    for (int64_t v = 0; v < 4 / world; ++v) {
      for (const int64_t id : sampler.MicroBatch(step / 5, step % 5, v)) {
        ASSERT_TRUE(train_->has(id)) << id << " in step " << step;
        seen.insert(id);
      }
    }
    EXPECT_LE(Here(), 2 * (9 + 6)) << "images of what may be held, and of a step's shards before that";
    EXPECT_TRUE(test_->has(0));
  }
  EXPECT_EQ(seen.size(), 40u);
}

TEST_F(DataArrivalTest, ShardHeldByAReaderStaysUntilTheNextCheck) {
  Begin({.ahead = shard_bytes(), .hold = shard_bytes()});
  std::vector<std::string> all;
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) all.push_back(file);
  fetcher_->Let(all);
  ASSERT_TRUE(arrival_->Follow(0, 0, 2).ok());
  ASSERT_TRUE(arrival_->AwaitStep(0, 0, 2, nullptr).ok());
  const std::vector<int64_t> ids = IdsOf(0);
  auto held = train_->Hold(ids);
  ASSERT_TRUE(held.has_value());
  ASSERT_TRUE(arrival_->Follow(4, 1, 2).ok());
  for (const int64_t id : ids) EXPECT_TRUE(train_->has(id)) << id;
  held.reset();
  ASSERT_TRUE(arrival_->Follow(4, 1, 2).ok());
  int64_t here = 0;
  for (const int64_t id : ids) here += train_->has(id) ? 1 : 0;
  EXPECT_LT(here, 4) << "but for what the last step of the other worker needs";
}

/// There is no other split, so evaluations reuse training images.
class EvaluatedOnTrainingTest : public DataArrivalTest {
 protected:
  EvaluatedOnTrainingTest() { shape_.splits = {{"train", 40}}; }
};

TEST_F(EvaluatedOnTrainingTest, SmallCacheHasSpaceForItsEvaluations) {
  constexpr int64_t kEvaluated = 6;  // of three shards
  const DataNeeds needs{.cache_bytes = 15 * shard_bytes(),
                        .arrives = true,
                        .plan = order_.plan,
                        .window = order_.window,
                        .eval_images = kEvaluated};
  const auto bounds = BoundsOf("https://host/set", client_.index(), needs);
  ASSERT_TRUE(bounds.ok()) << bounds.status();
  Begin(*bounds);
  fetcher_->Bound(needs.cache_bytes);
  int looks = 0;
  const auto patience = [&] {
    return ++looks < 300 ? absl::OkStatus() : absl::UnavailableError("the group is no more");
  };
  for (int64_t step = 0; step < 15; ++step) {  // three epochs
    ASSERT_TRUE(arrival_->Follow(step, 0, 1).ok());
    const absl::Status came = arrival_->AwaitStep(step, 0, 1, patience);
    ASSERT_TRUE(came.ok()) << step << ": " << came;
    if (step % 5 != 4) continue;
    const absl::Status evaluated = arrival_->AwaitImages(*test_, kEvaluated, patience);
    ASSERT_TRUE(evaluated.ok()) << "after step " << step << ": " << evaluated;
    for (int64_t i = 0; i < kEvaluated; ++i) EXPECT_TRUE(test_->has(i)) << i;
  }
}

TEST_F(DataArrivalTest, PresentShardsAreNotAwaited) {
  std::vector<std::string> all;
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) all.push_back(file);
  fetcher_->Let(all);
  ASSERT_TRUE(arrival_->AwaitFirst(0, 1, 2, /*warm_up=*/true, nullptr).ok());
  ASSERT_TRUE(arrival_->AwaitAll(nullptr).ok());
  EXPECT_EQ(Here(), 40);
  EXPECT_TRUE(test_->has(0));
}

/// A correct image is three bytes of value 7.
class DamagedWhileHeldTest : public DataArrivalTest {
 protected:
  void SetUp() override {
    DataArrivalTest::SetUp();
    for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) all_.push_back(file);
    fetcher_->Let(all_);
    ASSERT_TRUE(arrival_->AwaitAll(nullptr).ok());
    arrival_->TakeWaited();
  }
  void Damage(int64_t id) {
    const std::string path =
        client_.folder() + "/" + datasets::ShardFile("train", static_cast<size_t>(train_->shard_of(id)));
    const size_t images = support::ReadText(path).find(std::string(6, 7));
    ASSERT_NE(images, std::string::npos);
    std::fstream(path).seekp(static_cast<std::streamoff>(images)).write("damage", 6);
    ASSERT_NE(train_->image(id)[0], 7) << "it is mapped";
  }
  std::vector<std::string> all_;
};

TEST_F(DamagedWhileHeldTest, EvaluationWaitsForAnotherCopy) {
  const auto held = train_->Hold(std::vector<int64_t>{0});
  const uint8_t* const seen = train_->image(0).data();
  Damage(0);
  const absl::Status ended =
      arrival_->AwaitImages(*train_, 2, [] { return absl::UnavailableError("the group is no more"); });
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_NE(*seen, 7);
  const absl::Status came = arrival_->AwaitImages(*train_, 2, [&] {
    fetcher_->Let({all_.front()});
    return absl::OkStatus();
  });
  ASSERT_TRUE(came.ok()) << came;
  EXPECT_EQ(*seen, 7) << "also for who reads it meanwhile";
  EXPECT_EQ(train_->image(0).data(), seen);
  EXPECT_GT(arrival_->TakeWaited(), Duration::zero());
}

TEST_F(DamagedWhileHeldTest, StepSoonUsesAnotherCopy) {
  const int64_t id = IdsOf(0).front();
  Damage(id);
  fetcher_->Let(all_);
  const TimePoint patience = MonotonicNow() + std::chrono::seconds(20);
  while (train_->image(id)[0] != 7 && MonotonicNow() < patience)
    ASSERT_TRUE(arrival_->AwaitStep(0, 0, 2, nullptr).ok());
  EXPECT_EQ(train_->image(id)[0], 7);
}

/// The previous step has checked its own files a moment ago.
TEST_F(DamagedWhileHeldTest, FilesOfAStepAreCheckedBeforeItReadsThem) {
  ASSERT_TRUE(arrival_->AwaitStep(0, 0, 2, nullptr).ok());
  const std::vector<int64_t> before = IdsOf(0), ids = IdsOf(4);
  std::set<size_t> seen;
  for (const int64_t id : before) seen.insert(train_->shard_of(id));
  const auto unseen =
      std::find_if(ids.begin(), ids.end(), [&](int64_t id) { return seen.count(train_->shard_of(id)) == 0; });
  ASSERT_NE(unseen, ids.end());
  Damage(*unseen);
  const absl::Status ended =
      arrival_->AwaitStep(4, 0, 2, [] { return absl::UnavailableError("the group is no more"); });
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  fetcher_->Let(all_);
  const int64_t replaced = train_->replaced();
  ASSERT_TRUE(arrival_->AwaitStep(4, 0, 2, nullptr).ok());
  EXPECT_EQ(train_->image(*unseen)[0], 7);
  EXPECT_EQ(train_->replaced(), replaced + 1) << "what was read ahead is to be read again";
}

TEST_F(DamagedWhileHeldTest, StepThatCannotReadAnImageGetsAnotherCopy) {
  const int64_t id = IdsOf(0).front();
  bool goes_on = false;
  const auto watch = [&] { return goes_on ? absl::OkStatus() : absl::UnavailableError("no more"); };
  ASSERT_TRUE(arrival_->AwaitStep(0, 0, 2, watch).ok());
  const auto mend = [&] {
    const auto mended = train_->Mend({id});
    return mended.ok() ? (*mended ? "mended" : "as it came") : std::string(mended.status().message());
  };
  EXPECT_EQ(mend(), "as it came");
  Damage(id);
  std::string of_another_thread;
  std::thread([&] { of_another_thread = mend(); }).join();
  EXPECT_EQ(of_another_thread, "as it came") << "it cannot tell there";
  EXPECT_EQ(mend(), "no more") << "as who looks after the step says";
  fetcher_->Let(all_);
  goes_on = true;
  EXPECT_EQ(mend(), "mended");
  EXPECT_EQ(train_->image(id)[0], 7);
}

TEST_F(DamagedWhileHeldTest, MendingBeforeTheFirstStepCanBeInterrupted) {
  const int64_t id = IdsOf(0).front();
  const auto ends = [] { return absl::UnavailableError("no more"); };
  ASSERT_TRUE(arrival_->AwaitFirst(0, 0, 2, /*warm_up=*/true, ends).ok());
  Damage(id);
  std::promise<void> done;
  std::thread patience([&, over = done.get_future()] {
    if (over.wait_for(std::chrono::minutes(1)) == std::future_status::ready) return;
    ADD_FAILURE() << "nobody is asked how long to wait";
    fetcher_->Let(all_);
  });
  const absl::StatusOr<bool> mended = train_->Mend({id});
  done.set_value();
  patience.join();
  EXPECT_EQ(mended.status().message(), "no more");
}

/// This also holds with --sync_bn, although the worker takes part in the others' sums.
TEST_F(DataArrivalTest, WorkerWithoutMicroBatchesWaitsForNothing) {
  const auto at_once = [] { return absl::UnavailableError("it waits"); };
  EXPECT_TRUE(arrival_->AwaitFirst(0, 4, 5, /*warm_up=*/false, at_once).ok());
  for (int64_t step = 0; step < 5; ++step) EXPECT_TRUE(arrival_->AwaitStep(step, 4, 5, at_once).ok()) << step;
  EXPECT_EQ(Here(), 0);
}

TEST_F(DataArrivalTest, WaitEndsWithTheWatchsError) {
  const absl::Status ended =
      arrival_->AwaitImages(*test_, 1, [] { return absl::UnavailableError("the group is no more"); });
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_FALSE(test_->has(0));
}

TEST_F(DataArrivalTest, UnavailableShardDoesNotAffectStepsThatDoNotNeedIt) {
  fetcher_->Refuse("test/shard_00000.safetensors");
  ASSERT_TRUE(arrival_->Follow(0, 0, 2).ok());
  fetcher_->Let(FilesOf(Ahead().this_epoch));
  for (int64_t step = 0; step < 5; ++step) {
    const absl::Status came = arrival_->AwaitStep(step, 0, 2, nullptr);
    ASSERT_TRUE(came.ok()) << step << ": " << came;
  }
  const absl::Status needed = arrival_->AwaitImages(*test_, 1, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(needed)) << needed;
  EXPECT_THAT(std::string(needed.message()),
              ::testing::HasSubstr("test/shard_00000.safetensors is not there"));
}

}  // namespace
}  // namespace mtrun::trainers
