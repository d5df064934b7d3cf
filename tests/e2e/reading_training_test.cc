// Training from JPEG files that are cropped, coloured and mixed a few shards at a time: the run is a function
// of its settings, for any number of threads and any worker deaths.
#include "base/posix.h"
#include "tests/e2e/training.h"
#include "tests/trainers/support/encoded_set.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReadingTrainingTest : public TrainingRuns {
 protected:
  void SetUp() override {
    data_ = trainers::testing::WriteEncodedSet(folder_.path(), "data", {20, 3, 17, 25, 10, 15, 10}, 40);
  }

  const std::vector<std::string> streamed_ = {"--image_size",     "32", "--shuffle", "streams",
                                              "--shuffle_window", "2",  "--augment", "--random_resized_crop",
                                              "--color_jitter",   "0.3"};
  const std::vector<std::string> many_threads_ = {"--read_threads", "3", "--read_ahead", "5"};
};

TEST_F(ReadingTrainingTest, RandomCropStreamsAreTheSameForAnyWorkersThreadsAndFailures) {
  const auto training =
      Train({"--standalone", "--nproc_per_node", "3"}, "faulty", 3, Words(streamed_, many_threads_),
            {{"MTRUN_FAULTS", "rank=1 step=11 at=backward do=kill"}});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(), AllOf(HasSubstr("fault fired: "), HasSubstr("continuing with ")));
  ExpectUndisturbed("faulty", 3, Words(streamed_, {"--read_threads", "1", "--read_ahead", "0"}));
  EXPECT_THAT(support::ReadText(folder_.File("faulty") + "/ledger.jsonl"),
              HasSubstr("\"shuffle\":\"streams\",\"data\":"));

  const auto other = TrainHere(1, "faulty", 4, Words(streamed_, {"--shuffle", "true"}));
  EXPECT_EQ(other->Wait(), 2) << other->Text();
  EXPECT_THAT(other->Text(), HasSubstr("shuffle is 1, but the checkpoint has 2"));
}

/// The images equal those of earlier releases, but are read ahead.
TEST_F(ReadingTrainingTest, ReadAheadEqualsSynchronousReadingByDefault) {
  const std::vector<std::string> plain = {"--image_size", "32", "--decode", "exact"};
  const auto training = TrainHere(2, "ahead", 1, Words({"--image_size", "32"}, many_threads_));
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  ExpectUndisturbed("ahead", 1, Words(plain, {"--read_threads", "1", "--read_ahead", "0"}));
}

TEST_F(ReadingTrainingTest, OnlyADamagedImageIsReported) {
  const std::string shard = folder_.File("data") + "/train/shard_00003.safetensors";
  std::string bytes = support::ReadText(shard);
  bytes.replace(bytes.size() / 2, 64, std::string(64, '\0'));
  ASSERT_TRUE(WriteFileAtomically(shard, bytes).ok());
  const auto training = TrainHere(2, "damaged", 1, streamed_);
  EXPECT_NE(training->Wait(), 0);
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("of the data set: "), HasSubstr("mtdata verify finds damaged"),
                    Not(HasSubstr("terminate called"))));
}

}  // namespace
}  // namespace mtrun::e2e
