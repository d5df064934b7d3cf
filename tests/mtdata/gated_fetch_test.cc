// The fetcher as a separate process, between its clients and a server with the behaviour that a test needs.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "datasets/cache/set_client.h"
#include "datasets/packed/index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gated_server.h"
#include "tests/support/program.h"
#include "tests/support/token.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::mtdata {
namespace {

using datasets::kIndexFile;
using support::GatedServer;
using support::Program;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

class GatedFetch : public testing::Test {
 protected:
  GatedFetch()
      : set_(trainers::testing::WritePackedSet(folder_.path(), "data", {.train = 400, .test = 50},
                                               trainers::testing::VariedPixel)) {}

  std::unique_ptr<Program> Fetch(const std::string& url, const std::vector<std::string>& more = {}) {
    support::Overlay environment = mark_.overlay();
    environment["MTRUN_TOKEN"] = support::kToken;
    return std::make_unique<Program>(
        support::Joined({support::BinaryFolder() + "/mtdata", "fetch", url, "--cache", cache_}, more),
        environment);
  }
  ~GatedFetch() override { unsetenv(support::Mark::kVariable); }

  /// Returns a request for clients in this process.
  datasets::SetRequest RequestOf(const GatedServer& server) const {
    setenv(support::Mark::kVariable, mark_.value().c_str(), 1);  // for the fetcher that they start
    return {.cache = cache_,
            .open = {.url = server.url()},
            .fetcher = {support::BinaryFolder() + "/mtdata", "fetch", "--node"}};
  }
  void ExpectCopy(Program& fetch) {
    ASSERT_EQ(fetch.Wait(), 0) << fetch.Text();
    const std::string copy = fetch.OutLines().at(0);
    for (const std::string& file : {train_, test_})
      EXPECT_EQ(support::ReadText(copy + "/" + file), support::ReadText(set_ + "/" + file)) << file;
  }

  const std::string train_ = "train/shard_00000.safetensors", test_ = "test/shard_00000.safetensors";
  support::Mark mark_;
  support::TemporaryFolder folder_;
  const std::string cache_ = folder_.File("cache"), set_;
};

TEST_F(GatedFetch, FilesWantedByTwoClientsAreFetchedOnce) {
  GatedServer server(set_, {kIndexFile});
  const auto one = Fetch(server.url(), {"--cache_gib", "1"});
  const auto two = Fetch(server.url(), {"--cache_gib", "2"});
  for (const auto& fetch : {one.get(), two.get()})
    ASSERT_TRUE(fetch->WaitForLine("waiting: ")) << fetch->Text();
  server.Open();
  ExpectCopy(*one);
  ExpectCopy(*two);
  EXPECT_THAT(server.GivenFiles(), Contains(Pair(train_, 1)));
  EXPECT_THAT(server.GivenFiles(), Contains(Pair(test_, 1)));
}

TEST_F(GatedFetch, LaterClientGetsTheError) {
  GatedServer server(set_, {});
  const auto one = Fetch(server.url());
  ASSERT_TRUE(one->WaitForLine("waiting: ")) << one->Text();
  const auto two = Fetch(server.url());
  EXPECT_TRUE(two->WaitForLine("index.json: the server answers HTTP 503"));
  server.Open();
  ExpectCopy(*one);
  ExpectCopy(*two);
}

TEST_F(GatedFetch, RestartedServerCanLackAFileAtFirst) {
  GatedServer server(set_, {kIndexFile, test_});
  const auto fetch = Fetch(server.url());
  for (int i = 0; i < 600 && server.refused() < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.RefuseWith(404);
  const int before = server.refused();
  for (int i = 0; i < 600 && server.refused() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server.Open();
  ExpectCopy(*fetch);
}

TEST_F(GatedFetch, ErrorNamesARepeatedlyMissingFile) {
  GatedServer server(set_, {kIndexFile, test_}, 404);
  const auto fetch = Fetch(server.url());
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr(train_ + " does not exist (HTTP 404)"));
  EXPECT_EQ(server.refused(), 3);
}

TEST_F(GatedFetch, MissingFileFailsOnlyClientsThatWantIt) {
  GatedServer server(set_, {kIndexFile});
  std::filesystem::remove(set_ + "/" + train_);
  const datasets::SetRequest request = RequestOf(server);
  datasets::SetClient one(request), two(request);
  ASSERT_TRUE(one.Open(nullptr).ok());
  ASSERT_TRUE(two.Open(nullptr).ok());
  ASSERT_TRUE(two.Want({test_}).ok());
  const absl::Status missing = one.Await({train_}, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  server.Open();
  const absl::Status came = two.Await({test_}, nullptr);
  EXPECT_TRUE(came.ok()) << came;
}

TEST_F(GatedFetch, ErrorOfAFailedFileIsCleared) {
  GatedServer server(set_, {kIndexFile});
  std::filesystem::remove(set_ + "/" + train_);
  const datasets::SetRequest request = RequestOf(server);
  datasets::SetClient one(request), two(request);
  ASSERT_TRUE(one.Open(nullptr).ok());
  ASSERT_TRUE(two.Open(nullptr).ok());
  std::string trouble;
  const auto until_there_is_some = [&](const datasets::SetClient::Wait& wait) {
    trouble = wait.trouble;
    return trouble.empty() ? absl::OkStatus() : absl::CancelledError("seen");
  };
  const absl::Status seen = two.Await({test_}, until_there_is_some);
  EXPECT_TRUE(absl::IsCancelled(seen)) << seen;
  const absl::Status missing = one.Await({train_}, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  server.Open();
  const absl::Status came = two.Await({test_}, [&](const datasets::SetClient::Wait& wait) {
    trouble = wait.trouble;
    return absl::OkStatus();
  });
  EXPECT_TRUE(came.ok()) << came;
  EXPECT_EQ(trouble, "");
}

/// Here the client cannot open more files for a while.
TEST_F(GatedFetch, ReportsWhyAPresentFileCannotBeHeld) {
  GatedServer server(set_, {kIndexFile, train_});
  const datasets::SetRequest request = RequestOf(server);
  datasets::SetClient one(request), two(request);
  ASSERT_TRUE(one.Open(nullptr).ok());
  ASSERT_TRUE(one.Await({train_}, nullptr).ok());
  ASSERT_TRUE(two.Open(nullptr).ok());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string trouble;
  const absl::Status came = two.Await({train_}, [&](const datasets::SetClient::Wait& wait) {
    if (trouble.empty() && !wait.trouble.empty()) {
      trouble = wait.trouble;
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    return wait.waited < support::kPatience ? absl::OkStatus() : absl::DeadlineExceededError("nothing said");
  });
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(came.ok()) << came;
  EXPECT_THAT(trouble, testing::AllOf(HasSubstr(train_), HasSubstr("Too many open files")));
}

/// The others are another job on the node, or a restarted worker, while a neighbour reads the shard.
TEST_F(GatedFetch, ShardDamagedWhileHeldIsFetchedAgainForOthers) {
  GatedServer server(set_, {kIndexFile, train_, test_});
  const datasets::SetRequest request = RequestOf(server);
  datasets::SetClient holder(request);
  ASSERT_TRUE(holder.Open(nullptr).ok());
  ASSERT_TRUE(holder.Await({train_}, nullptr).ok());
  const std::string copy = holder.folder() + "/" + train_;
  std::vector<std::unique_ptr<datasets::SetClient>> others;  // these also hold their shards
  for (const bool cut : {false, true}) {
    if (cut) {
      std::filesystem::resize_file(copy, 100);
    } else {
      std::fstream(copy).seekp(100).write("damage", 6);
    }
    others.push_back(std::make_unique<datasets::SetClient>(request));
    ASSERT_TRUE(others.back()->Open(nullptr).ok());
    const absl::Status came = others.back()->Await({train_}, [](const datasets::SetClient::Wait& wait) {
      return wait.waited < std::chrono::seconds(20) ? absl::OkStatus()
                                                    : absl::DeadlineExceededError(wait.trouble);
    });
    ASSERT_TRUE(came.ok()) << came;
    EXPECT_EQ(support::ReadText(copy), support::ReadText(set_ + "/" + train_));
  }
  EXPECT_THAT(server.GivenFiles(), Contains(Pair(train_, 3)));
}

TEST_F(GatedFetch, CachedSetNeedsNoServerEvenIfAnotherUsesItsPort) {
  GatedServer server(set_, {kIndexFile, train_, test_});
  const datasets::SetRequest request = RequestOf(server);
  datasets::SetClient one(request), two(request);
  ASSERT_TRUE(one.Open(nullptr).ok());
  ASSERT_TRUE(one.Await({train_, test_}, nullptr).ok());
  server.CloseWith(401);
  const auto for_a_while = [](const datasets::SetClient::Wait& wait) {
    return wait.waited < std::chrono::seconds(20) ? absl::OkStatus()
                                                  : absl::DeadlineExceededError(wait.trouble);
  };
  const absl::Status opened = two.Open(for_a_while);
  ASSERT_TRUE(opened.ok()) << opened;
  const absl::Status came = two.Await({train_, test_}, for_a_while);
  EXPECT_TRUE(came.ok()) << came;
  EXPECT_GT(server.refused(), 0);
}

}  // namespace
}  // namespace mtrun::mtdata
