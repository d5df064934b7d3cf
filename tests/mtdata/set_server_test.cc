#include "mtdata/set_server.h"

#include <sys/resource.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtdata/set_table.h"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::mtdata {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using trainers::testing::VariedPixel;
using trainers::testing::WritePackedSet;

class SetServerTest : public testing::Test {
 protected:
  SetServerTest() {
    fs::create_directories(folder_.File("root/more"));
    WritePackedSet(folder_.File("root"), "small", {.train = 20, .test = 5}, VariedPixel);
    WritePackedSet(folder_.File("root/more"), "deep", {.train = 20, .test = 5}, VariedPixel);
    support::WriteText(folder_.File("root/secret.txt"), "secret");
    support::WriteText(folder_.File("shard_00000.safetensors"), "outside");
    fs::create_symlink("../../../shard_00000.safetensors",
                       folder_.File("root/small/train/shard_00009.safetensors"));
    server_ = *SetServer::Make(
        {.root = folder_.File("root"), .bearer = "key", .metrics_bearer = "scraper's", .access_log = false});
  }
  web::Response Ask(const std::string& path, const std::string& bearer = "Bearer key") {
    return server_->Answer({.method = "GET", .path = path, .headers = {{"authorization", bearer}}});
  }

  support::TemporaryFolder folder_;
  std::shared_ptr<SetServer> server_;
};

TEST_F(SetServerTest, ServesFilesOfSets) {
  for (const char* path : {"/small/index.json", "/small/train/shard_00000.safetensors",
                           "/more/deep/index.json", "/small/test/shard_00000.safetensors"}) {
    const web::Response response = Ask(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_TRUE(response.file && response.file->fd && response.length() > 0) << path;
  }
}

TEST_F(SetServerTest, ServesNothingElse) {
  for (const char* path :
       {"/secret.txt", "/small", "/small/", "/small/train", "/../shard_00000.safetensors", "/none/index.json",
        "/small/train/shard_00009.safetensors", "/small/%2e%2e/secret.txt",
        "/small/train/shard_1.safetensors", "/small/train/../index.json", "//small/index.json"}) {
    EXPECT_EQ(Ask(path).status, 404) << path;
  }
}

TEST_F(SetServerTest, FileThatCannotBeReadNowIsNotReportedMissing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int status = Ask("/small/index.json").status;
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status, 503) << "a client waits, and takes a 404 for final";
  EXPECT_EQ(Ask("/small/index.json").status, 200);
}

TEST_F(SetServerTest, UnauthenticatedClientsGetNothing) {
  for (const char* bearer : {"", "key", "Bearer ", "Bearer kez", "Bearer keyy", "Basic key"}) {
    for (const char* path : {"/", "/small/index.json", "/metrics", "/none"})
      EXPECT_EQ(Ask(path, bearer).status, 401) << path << bearer;
    EXPECT_EQ(Ask("/healthz", bearer).status, 200);
  }
}

TEST_F(SetServerTest, ScraperReadsMetricsAndNoData) {
  EXPECT_EQ(Ask("/metrics", "Bearer scraper's").status, 200);
  for (const char* path : {"/", "/small/index.json", "/none"})
    EXPECT_EQ(Ask(path, "Bearer scraper's").status, 401) << path;
  const auto without = SetServer::Make({.root = folder_.File("root"), .bearer = "key", .access_log = false});
  EXPECT_EQ((*without)
                ->Answer({.method = "GET", .path = "/metrics", .headers = {{"authorization", "Bearer "}}})
                .status,
            401);
}

TEST_F(SetServerTest, ListsItsSets) {
  const web::Response list = Ask("/");
  EXPECT_THAT(list.body,
              testing::AllOf(HasSubstr("\"name\": \"small\""), HasSubstr("\"name\": \"more/deep\"")));
  EXPECT_THAT(TableOf(FindSets(folder_.File("root"))), HasSubstr("more/deep"));
  EXPECT_EQ(FindSets(folder_.File("root/small"))[0].name, "");
}

TEST_F(SetServerTest, ReplacedSetIsStillServed) {
  const auto server =
      *SetServer::Make({.root = folder_.File("root/small"), .bearer = "key", .access_log = false});
  const web::Request index{
      .method = "GET", .path = "/index.json", .headers = {{"authorization", "Bearer key"}}};
  EXPECT_EQ(server->Answer(index).status, 200);
  fs::rename(folder_.File("root/small"), folder_.File("old"));
  EXPECT_EQ(server->Answer(index).status, 503) << "a client waits";
  fs::rename(folder_.File("root/more/deep"), folder_.File("root/small"));
  fs::remove_all(folder_.File("old"));
  EXPECT_EQ(server->Answer(index).status, 200);
}

TEST_F(SetServerTest, DoesNotListLinksThatLeadOutside) {
  fs::rename(folder_.File("root/more"), folder_.File("elsewhere"));
  fs::create_symlink(folder_.File("elsewhere"), folder_.File("root/more"));
  fs::create_symlink("small", folder_.File("root/within"));
  fs::copy(folder_.File("root/small"), folder_.File("root/split"), fs::copy_options::recursive);
  fs::rename(folder_.File("root/split/train"), folder_.File("elsewhere/train"));
  fs::create_symlink(folder_.File("elsewhere/train"), folder_.File("root/split/train"));
  std::vector<std::string> names, outside;
  for (const ServedSet& set : FindSets(folder_.File("root"), &outside)) names.push_back(set.name);
  EXPECT_THAT(names, testing::ElementsAre("small", "within"));
  EXPECT_THAT(outside, testing::UnorderedElementsAre("more/deep", "split"));
  EXPECT_EQ(Ask("/more/deep/index.json").status, 404);
}

TEST_F(SetServerTest, CountsItsWork) {
  server_->Count({.status = 206, .bytes = 1000, .complete = true});
  server_->Count({.status = 401, .bytes = 10, .complete = false});
  const std::string metrics = Ask("/metrics").body;
  for (const char* line : {"mtdata_requests_total{status=\"2xx\"} 1\n", "mtdata_sent_bytes_total 1010\n",
                           "mtdata_broken_answers_total 1\n", "mtdata_refused_total 1\n"}) {
    EXPECT_THAT(metrics, HasSubstr(line));
  }
}

TEST(SetServerLog, EntryIsASingleLine) {
  EXPECT_EQ(LogLine({.peer = "1.2.3.4",
                     .method = "GET",
                     .target = "/a\n\x1b[1m",
                     .status = 404,
                     .bytes = 1234,
                     .seconds = 0.5,
                     .complete = true}),
            "1.2.3.4 GET /a??[1m 404 1,234 bytes 0.500 s");
}

}  // namespace
}  // namespace mtrun::mtdata
