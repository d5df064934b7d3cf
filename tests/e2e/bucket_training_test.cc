// A packed set in a bucket of moto, which requires a signature of every request: an authorised user trains on
// it, and others get a one-sentence error. tools/test --full.
#include <sstream>

#include "tests/e2e/training.h"
#include "tests/support/peers_python.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class BucketTrainingTest : public TrainingRuns {
 protected:
  struct Keys {
    std::string access, secret;
  };

  void SetUp() override {
    const std::string python = support::MotoPython();
    if (python.empty()) GTEST_SKIP() << "no moto here: tools/setup --test-tools";
    TrainingRuns::SetUp();
    store_ = std::make_unique<Program>(
        std::vector<std::string>{python, "-m", "moto.server", "-p", absl::StrCat(port_)}, Environment());
    ASSERT_TRUE(store_->WaitForLine("Running on")) << store_->Text();
    Program fill(
        {python, support::TestFile("support/toys/moto_bucket.py"), Endpoint(), "photos", "sets/data", data_},
        Environment());
    ASSERT_EQ(fill.Wait(), 0) << fill.Text() << store_->Text();
    for (Keys* keys : {&reader_, &nobody_}) {
      std::istringstream line(fill.OutLines().at(keys == &reader_ ? 0 : 1));
      line >> keys->access >> keys->secret;
      ASSERT_NE(keys->secret, "");
    }
  }
  void TearDown() override {
    store_.reset();
    TrainingRuns::TearDown();
  }
  std::string Endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }

  support::Overlay With(const Keys& keys) const {
    support::Overlay overlay = Environment();
    for (const char* name :
         {"AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"})
      overlay[name] = std::nullopt;
    overlay["AWS_SECRET_ACCESS_KEY"] = keys.secret;
    if (!keys.access.empty()) overlay["AWS_ACCESS_KEY_ID"] = keys.access;
    overlay["AWS_REGION"] = "us-east-1";
    overlay["AWS_ENDPOINT_URL"] = Endpoint();
    return overlay;
  }
  std::unique_ptr<Program> Fetch(const Keys& keys) const {
    return std::make_unique<Program>(std::vector<std::string>{support::BinaryFolder() + "/mtdata", "fetch",
                                                              "s3://photos/sets/data", "--cache", cache_},
                                     With(keys));
  }
  /// Returns how many requests for `file` the store has answered with `status`.
  int Answered(const std::string& file, int status) {
    int answered = 0;
    for (const std::string& line : store_->ErrLines()) {
      const bool of_file = line.find("GET /photos/sets/data/" + file) != std::string::npos;
      answered += of_file && line.find(absl::StrCat(" ", status, " ")) != std::string::npos ? 1 : 0;
    }
    return answered;
  }
  void ExpectNothingFetched() const { EXPECT_FALSE(std::filesystem::exists(cache_ + "/sources")); }

  const int port_ = support::FreePort();
  const std::string cache_ = folder_.File("cache");
  const std::vector<std::string> from_store_ = {"--data", "s3://photos/sets/data", "--cache", cache_};
  const std::string refusal_ =
      "sets/data/index.json is refused (HTTP 403): the store does not know these keys or denies them access "
      "to the bucket: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION";
  Keys reader_, nobody_;
  std::unique_ptr<Program> store_;
};

TEST_F(BucketTrainingTest, RunFromABucketEqualsRunFromAFolder) {
  const auto training =
      Train({"--standalone", "--nproc_per_node", "2"}, "run", 2, from_store_, With(reader_));
  ASSERT_EQ(training->Wait(Seconds(120)), 0) << training->Text() << store_->Text();
  for (const std::string split : {"train", "test"})
    EXPECT_EQ(Answered(split + "/shard_00000.safetensors", 200), 1) << store_->Text();
  EXPECT_EQ(Answered("", 403), 0) << store_->Text();
  ExpectUndisturbed("run", 2);
}

TEST_F(BucketTrainingTest, KeysWithoutReadPermissionAreRefusedInOneSentence) {
  for (const Keys& keys :
       {Keys{reader_.access, "wrong" + reader_.secret}, Keys{"AKIANOBODYKNOWSIT", "x"}, nobody_}) {
    const auto fetch = Fetch(keys);
    EXPECT_EQ(fetch->Wait(), 1) << keys.access;
    EXPECT_THAT(fetch->ErrLines(), ElementsAre(HasSubstr(refusal_)));
  }
  Program trainer(
      Words({support::BinaryFolder() + "/cnnA", "--model_folder", folder_.File("run")}, from_store_),
      With({reader_.access, "wrong"}));
  EXPECT_EQ(trainer.Wait(), 2) << trainer.Text();
  EXPECT_THAT(trainer.Text(), AllOf(HasSubstr(refusal_), Not(HasSubstr("terminate called"))));
  ASSERT_TRUE(store_->WaitForLines("GET /photos/sets/data/index.json", 4)) << store_->Text();
  EXPECT_EQ(Answered("", 403), 4) << "each is told once, and does not ask again: " << store_->Text();
  EXPECT_EQ(Answered("", 200), 0);
  ExpectNothingFetched();
}

TEST_F(BucketTrainingTest, ClientWithoutKeysGetsNothing) {
  const auto fetch = Fetch({});
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->ErrLines(),
              ElementsAre(HasSubstr("needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")));
  const std::string answer = support::Ask(port_,
                                          "GET /photos/sets/data/index.json HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                          "Connection: close\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr(" 403 "), Not(HasSubstr("mtrun-packed"))));
  ASSERT_TRUE(store_->WaitForLine("GET /photos/sets/data/index.json")) << store_->Text();
  EXPECT_EQ(Answered("", 403), 1) << "the program asked nobody: " << store_->Text();
  ExpectNothingFetched();
}

}  // namespace
}  // namespace mtrun::e2e
