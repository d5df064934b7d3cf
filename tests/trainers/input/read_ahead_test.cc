#include "trainers/input/read_ahead.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "base/sha256.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "trainers/device/torch_status.h"
#include "trainers/input/dataset_source.h"

namespace mtrun::trainers {
namespace {

using datasets::ImageSize;
using datasets::RgbImage;

/// Returns an image as smooth as a photograph, so that its JPEG is close to it.
RgbImage Waves(const ImageSize& size, int number) {
  RgbImage image = datasets::MakeImage(size);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      uint8_t* pixel = &image.pixels[size_t{3} * (y * size.width + x)];
      for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<uint8_t>(128 + 60 * std::sin((x + 2.0 * y * (c + 1)) / (17 + number)) +
                                        40 * std::sin((3.0 * x - y) / (40 - 5 * c)));
    }
  }
  return image;
}

/// A packed set of eight JPEG files and a PNG of different sizes; image i has label i mod 3.
class ReadAheadTest : public ::testing::Test {
 protected:
  ReadAheadTest() : folder_(*MakeTemporaryFolder("mtrun_read_")) {
    for (int i = 0; i < kImages; ++i) images_.push_back(Waves({90 + 13 * i, 200 - 11 * i}, i));
    data_.emplace(Write(/*damaged=*/-1));
  }
  ~ReadAheadTest() override { std::filesystem::remove_all(folder_); }

  datasets::PackedSplit Write(int damaged) {
    datasets::Index index{.height = 1,
                          .width = 1,
                          .encoded = true,
                          .min_height = 65535,
                          .min_width = 65535,
                          .classes = {"a", "b", "c"}};
    std::vector<datasets::Record> records;
    std::vector<int64_t> labels;
    for (int i = 0; i < kImages; ++i) {
      const RgbImage& image = images_[i];
      records.push_back({i == 4 ? datasets::EncodePng(image) : datasets::EncodeJpeg(image, 95), image.size});
      if (i == damaged) records.back().bytes.resize(records.back().bytes.size() / 2);
      labels.push_back(i % 3);
      index.height = std::max(index.height, image.size.height);
      index.width = std::max(index.width, image.size.width);
      index.min_height = std::min(index.min_height, image.size.height);
      index.min_width = std::min(index.min_width, image.size.width);
    }
    std::string shard = datasets::EncodeShardHead(labels, records);
    for (const datasets::Record& record : records) shard += record.bytes;
    index.splits["train"] = {
        .class_counts = {3, 3, 3},
        .shards = {
            {.images = kImages, .bytes = static_cast<int64_t>(shard.size()), .sha256 = Sha256Hex(shard)}}};
    EXPECT_TRUE(MakeFolders(folder_ + "/train").ok());
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/" + datasets::ShardFile("train", 0), shard).ok());
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/index.json", datasets::EncodeIndex(index)).ok());
    auto split = datasets::PackedSplit::Open(folder_, "train");
    EXPECT_TRUE(split.ok()) << split.status();
    return *std::move(split);
  }

  /// Two micro-batches of three images a step, each of 48x48.
  static ReadAhead::Request RequestOf(int64_t step, int64_t micro_batch) {
    const int64_t first = (step * 5 + micro_batch * 3) % 7;
    return {{first, first + 1, (first + 5) % kImages}, 48};
  }
  ReadAhead::Options Cropped(int threads = 2, int ahead = 3) const {
    return {.reading = {.crop = RandomCrop{}, .jitter = {.colours = 0.3, .hue = 0.1}},
            .seed = 5,
            .threads = threads,
            .ahead = ahead};
  }
  static std::vector<uint8_t> BytesOf(const ImageBytes& bytes) {
    const uint8_t* first = bytes.owner.const_data_ptr<uint8_t>();
    return {first, first + bytes.owner.numel()};
  }

  static constexpr int kImages = 9;
  const std::string folder_;
  std::vector<RgbImage> images_;
  std::optional<datasets::PackedSplit> data_;
};

TEST_F(ReadAheadTest, ResultsDoNotDependOnThreadsOrExpectations) {
  ReadAhead alone(*data_, Cropped(1, 0), RequestOf), many(*data_, Cropped(4, 5), RequestOf);
  for (int64_t step = 0; step < 6; ++step) {
    many.Expect(step, step < 3 ? 0 : 1, 2);  // a worker has left and another one has joined
    for (int64_t micro_batch = step < 3 ? 0 : 1; micro_batch < 2; ++micro_batch) {
      const ImageBytes a = alone.Take(step, micro_batch), b = many.Take(step, micro_batch);
      EXPECT_EQ(BytesOf(a), BytesOf(b)) << step << " " << micro_batch;
      EXPECT_EQ(a.labels, b.labels);
      EXPECT_EQ(a.gathered, b.gathered);
      EXPECT_EQ(a.gathered.count, 3);
      EXPECT_EQ(a.owner.sizes(), (std::vector<int64_t>{3, 48, 48, 3}));
      const auto ids = RequestOf(step, micro_batch).ids;
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(a.labels[i], ids[i] % 3);
    }
  }
  EXPECT_EQ(BytesOf(many.Take(77, 1)), BytesOf(alone.Take(77, 1))) << "nobody expected it";
  EXPECT_NE(BytesOf(many.Take(0, 0)), BytesOf(many.Take(7, 0))) << "the same images, other random numbers";
}

TEST_F(ReadAheadTest, SkippedMicroBatchesAreNotReadAhead) {
  ReadAhead alone(*data_, Cropped(1, 0), RequestOf), many(*data_, Cropped(4, 3), RequestOf);
  many.SkipIf([](int64_t, int64_t micro_batch) { return micro_batch == 0; });
  many.Expect(0, 0, 2);
  EXPECT_EQ(many.held(), 3);  // the second ones of three steps
  EXPECT_EQ(BytesOf(many.Take(0, 1)), BytesOf(alone.Take(0, 1)));
  EXPECT_EQ(BytesOf(many.Take(1, 0)), BytesOf(alone.Take(1, 0))) << "is read when it is taken";
  many.SkipIf([](int64_t, int64_t) { return true; });
  many.Expect(2, 0, 2);
  EXPECT_EQ(many.held(), 0);
}

TEST_F(ReadAheadTest, ReadsTheStepsAfterTheExpectedOne) {
  Mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> asked;
  ReadAhead reader(*data_, Cropped(2, 4), [&](int64_t step, int64_t micro_batch) {
    const MutexLock lock(mutex);
    asked.emplace_back(step, micro_batch);
    return RequestOf(step, micro_batch);
  });
  reader.Expect(10, 0, 2);
  using Keys = std::vector<std::pair<int64_t, int64_t>>;
  for (const auto& key : Keys{{10, 0}, {10, 1}, {11, 0}, {11, 1}})
    EXPECT_THAT(asked, ::testing::Contains(key));
  EXPECT_THAT(asked, ::testing::Not(::testing::Contains(std::pair<int64_t, int64_t>(12, 1))));
  reader.Take(10, 0);
  EXPECT_THAT(asked, ::testing::Contains(std::pair<int64_t, int64_t>(12, 0)));
}

TEST_F(ReadAheadTest, MissingImagesAreNotReadAhead) {
  auto arriving = datasets::PackedSplit::OpenIndex(folder_, "train");
  ASSERT_TRUE(arriving.ok()) << arriving.status();
  ReadAhead reader(*arriving, Cropped(2, 3), RequestOf), whole(*data_, Cropped(2, 3), RequestOf);
  reader.Expect(0, 0, 2);
  EXPECT_EQ(reader.held(), 0);
  ASSERT_TRUE(arriving->Add(0).ok());
  EXPECT_EQ(BytesOf(reader.Take(0, 0)), BytesOf(whole.Take(0, 0)));
  EXPECT_EQ(reader.held(), 3);
}

TEST_F(ReadAheadTest, ReadAheadKeepsItsShard) {
  auto arriving = datasets::PackedSplit::OpenIndex(folder_, "train");
  ASSERT_TRUE(arriving.ok()) << arriving.status();
  {
    ReadAhead reader(*arriving, Cropped(2, 3), RequestOf);
    EXPECT_THROW(reader.Take(0, 0), c10::Error) << "it is not there";
    ASSERT_TRUE(arriving->Add(0).ok());
    reader.Expect(0, 0, 2);
    EXPECT_FALSE(arriving->Drop(0)) << "somebody reads";
    EXPECT_EQ(reader.Take(0, 0).labels.size(), 3u);
  }
  EXPECT_TRUE(arriving->Drop(0));
}

TEST_F(ReadAheadTest, BatchTakenBeforeItsStepIsNotReadAgain) {
  Mutex mutex;
  std::multiset<std::pair<int64_t, int64_t>> asked;
  ReadAhead reader(*data_, Cropped(2, 3), [&](int64_t step, int64_t micro_batch) {
    const MutexLock lock(mutex);
    asked.emplace(step, micro_batch);
    return RequestOf(step, micro_batch);
  });
  reader.Expect(4, 0, 2);
  reader.Take(4, 0);
  reader.Take(4, 1);
  reader.Take(5, 0);  // a device's copies are taken ahead of their step
  const size_t before = asked.count({5, 0});
  reader.Expect(5, 0, 2);
  reader.Take(5, 1);
  EXPECT_EQ(asked.count({5, 0}), before);
  const ImageBytes again = reader.Take(5, 0);  // the step is repeated
  EXPECT_EQ(BytesOf(again), BytesOf(ReadAhead(*data_, Cropped(1, 0), RequestOf).Take(5, 0)));
}

TEST_F(ReadAheadTest, StaysWithinItsMemoryLimit) {
  constexpr int64_t kOne = int64_t{3} * 48 * 48 * 3;  // bytes of a micro-batch
  for (const auto& [bytes, ahead] : {std::pair<int64_t, int64_t>{0, 1}, {kOne, 1}, {3 * kOne + 1, 3}}) {
    ReadAhead::Options options = Cropped(2, 9);
    options.most_bytes = bytes;
    ReadAhead reader(*data_, options, RequestOf);
    reader.Expect(0, 0, 2);
    EXPECT_EQ(reader.held(), ahead) << bytes;
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) reader.Take(step, micro_batch);
    }
    EXPECT_EQ(reader.held(), ahead) << bytes;
  }
}

TEST_F(ReadAheadTest, ShortStepsReadLess) {
  ReadAhead reader(*data_, Cropped(), [](int64_t step, int64_t micro_batch) {
    return micro_batch == 1 && step % 2 == 1 ? ReadAhead::Request{} : RequestOf(step, micro_batch);
  });
  reader.Expect(0, 1, 2);
  for (const int64_t step : {0, 2, 4}) {
    EXPECT_EQ(reader.Take(step, 1).images.size(), 3u);
    reader.Expect(step + 1, 1, 2);
  }
}

TEST_F(ReadAheadTest, FastIsCloseToExact) {
  for (const int64_t id : {0, 3, 4, 8}) {
    for (const int size : {24, 48, 160}) {
      Reading exact{.crop = RandomCrop{.min_area = 0.3}, .decode = datasets::DecodeMode::kExact},
          fast = exact;
      fast.decode = datasets::DecodeMode::kFast;
      std::vector<uint8_t> a(3 * size * size), b(a.size());
      const RandomStream stream(1, 2, 3, kReadPurpose);
      ASSERT_TRUE(ReadImage(*data_, exact, id, size, stream, id, a.data()).ok());
      ASSERT_TRUE(ReadImage(*data_, fast, id, size, stream, id, b.data()).ok());
      double apart = 0;
      for (size_t i = 0; i < a.size(); ++i) apart += std::abs(a[i] - b[i]);
      EXPECT_LE(apart / static_cast<double>(a.size()), 2) << "image " << id << " to " << size;
    }
  }
}

TEST_F(ReadAheadTest, DefaultIsTheCentreSquare) {
  std::vector<uint8_t> read(3 * 32 * 32);
  const Reading reading{.decode = datasets::DecodeMode::kExact};
  ASSERT_TRUE(ReadImage(*data_, reading, 4, 32, RandomStream(1, 2, 3, kReadPurpose), 0, read.data()).ok());
  const RgbImage& image = images_[4];  // the PNG: 142x156
  const RgbImage expected = datasets::ResizeBilinear(
      image, datasets::InEighths(datasets::CentredBox(image.size, {32, 32})), {32, 32});
  EXPECT_EQ(read, expected.pixels);
}

TEST_F(ReadAheadTest, ExactMatchesReadingWithoutReadAhead) {
  std::vector<int64_t> ids(kImages);
  std::iota(ids.begin(), ids.end(), 0);
  const ReadAhead::Options options{.reading = {.decode = datasets::DecodeMode::kExact}, .threads = 3};
  for (const int size : {16, 48, 224}) {
    ReadAhead reader(*data_, options, [&](int64_t, int64_t) { return ReadAhead::Request{ids, size}; });
    const ImageBytes read = reader.Take(0, 0), gathered = GatherImages(*data_, ids, size);
    EXPECT_EQ(BytesOf(read), BytesOf(gathered)) << size;
    EXPECT_EQ(read.labels, gathered.labels);
    EXPECT_EQ(read.gathered, gathered.gathered);
  }
}

TEST_F(ReadAheadTest, DamagedImageIsNamedWhenTaken) {
  const datasets::PackedSplit damaged = Write(/*damaged=*/1);
  ReadAhead reader(damaged, Cropped(), RequestOf);
  reader.Expect(0, 0, 1);
  try {
    reader.Take(0, 0);
    FAIL() << "image 1 is half a file";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("image 1 of the data set: "));
  }
}

/// A shard that is overwritten while it is read.
class DamagedShardTest : public ReadAheadTest {
 protected:
  DamagedShardTest() : shard_(folder_ + "/" + datasets::ShardFile("train", 0)), whole_(*ReadFile(shard_)) {
    Write(/*damaged=*/-1);  // a different file from the one that data_ has mapped
    auto arriving = datasets::PackedSplit::OpenIndex(folder_, "train");
    EXPECT_TRUE(arriving.ok() && arriving->Add(0).ok());
    arriving_.emplace(*std::move(arriving));
  }
  /// Makes all images undecodable, or replaces them with other images.
  void Damage(bool undecodable) {
    for (int64_t i = 0; i < kImages; ++i) {
      const std::string_view record = arriving_->record(i);
      const size_t begin = whole_.find(record);
      ASSERT_NE(begin, std::string::npos) << i;
      const std::string bytes = undecodable ? "no image" : std::string(record.size() / 4, '\x55');
      std::fstream(shard_).seekp(static_cast<std::streamoff>(undecodable ? begin : begin + record.size() / 2))
          << bytes;
    }
  }
  /// Replaces the file by one with the correct bytes.
  void Mend() {
    EXPECT_TRUE(WriteFileAtomically(shard_, whole_).ok());
    EXPECT_TRUE(arriving_->Replace(0).ok());
  }
  void ExpectWhole(ReadAhead& reader, int64_t step, int64_t micro_batch) {
    ReadAhead whole(*data_, Cropped(1, 0), RequestOf);
    const auto expected = BytesOf(whole.Take(step, micro_batch));
    EXPECT_EQ(BytesOf(reader.Take(step, micro_batch)), expected) << step << " " << micro_batch;
  }
  const std::string shard_, whole_;
  std::optional<datasets::PackedSplit> arriving_;
};

TEST_F(DamagedShardTest, ReadAheadIsRepeatedAfterTheShardIsReplaced) {
  for (const bool undecodable : {false, true}) {
    ReadAhead reader(*arriving_, Cropped(1, 3), RequestOf);
    reader.Expect(0, 0, 2);
    ExpectWhole(reader, 0, 0);
    Damage(undecodable);
    reader.Expect(7, 0, 2);
    EXPECT_EQ(reader.held(), 3);
    Mend();
    for (const int64_t micro_batch : {0, 1}) ExpectWhole(reader, 7, micro_batch);
    reader.Expect(8, 0, 2);
    ExpectWhole(reader, 8, 0);
  }
}

TEST_F(DamagedShardTest, UnreadableImageIsReadAgainIfTheShardIsMended) {
  ReadAhead reader(*arriving_, Cropped(1, 3), RequestOf);
  std::vector<std::vector<int64_t>> asked;
  bool mends = false;
  arriving_->set_mender([&](absl::Span<const int64_t> ids) -> absl::StatusOr<bool> {
    asked.emplace_back(ids.begin(), ids.end());
    if (mends) Mend();
    return mends;
  });
  ReadAhead whole(*data_, Cropped(1, 0), RequestOf);
  const auto expected = BytesOf(whole.Take(0, 1));
  Damage(/*undecodable=*/true);
  reader.Expect(0, 0, 2);
  EXPECT_THROW(reader.Take(0, 0), c10::Error) << "nobody can do anything about it";
  mends = true;
  EXPECT_EQ(BytesOf(reader.Take(0, 1)), expected);
  EXPECT_THAT(asked, ::testing::ElementsAre(RequestOf(0, 0).ids, RequestOf(0, 1).ids));
}

TEST_F(DamagedShardTest, MenderErrorEndsTheStep) {
  ReadAhead reader(*arriving_, Cropped(1, 3), RequestOf);
  Damage(/*undecodable=*/true);
  absl::Status why;
  arriving_->set_mender([&](auto) { return why; });
  const auto taken = [&] { return TorchStatus("step 7", [&] { reader.Take(7, 0); }); };
  why = absl::UnavailableError("the group is no more");
  EXPECT_EQ(taken(), absl::UnavailableError("step 7: the group is no more"));
  why = absl::CancelledError("asked to go by SIGTERM");
  EXPECT_EQ(taken(), why) << "nothing has failed";
  why = absl::FailedPreconditionError("the server has another set");
  const absl::Status refused = taken();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              ::testing::MatchesRegex("step 7: image .* of the data set: .*; it cannot be fetched again: "
                                      "the server has another set"));
}

TEST_F(ReadAheadTest, SourceGrowsItsImages) {
  SourceOptions options;
  options.seed = 3;
  options.plan = {.global_batch = 4, .micro_batch = 2};
  options.augmentation.flip = true;
  options.reading = {.crop = RandomCrop{}, .growth = {.from = 32, .first = 1, .end = 2}};
  const BatchOptions batch{.image_size = 96, .grows = true, .read_threads = 2};
  DatasetSource a(*data_, options, batch), b(*data_, options, batch);
  b.Expect(0, 0, 2);
  for (int64_t step = 0; step < 9; ++step) {
    const int64_t side = step < a.steps_per_epoch() ? 32 : step < 2 * a.steps_per_epoch() ? 64 : 96;
    for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      if (a.SamplesInMicroBatch(step, micro_batch) == 0) continue;
      const Batch made = a.Make(step, micro_batch), same = b.Make(step, micro_batch);
      EXPECT_EQ(made.images.sizes(),
                (std::vector<int64_t>{a.SamplesInMicroBatch(step, micro_batch), 3, side, side}));
      EXPECT_TRUE(made.images.equal(same.images));
      EXPECT_EQ(made.gathered.count, a.SamplesInMicroBatch(step, micro_batch));
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers
