#include "datasets/cache/set_request.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::datasets {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kKey = std::string(64, 'a') + "." + std::string(64, 'b');

TEST(SetRequestTest, MtrunsServerGetsTheDataKey) {
  const auto request =
      MakeSetRequest("https://h:1/x", {.cache_gib = 2},
                     {{"MTRUN_DATA_KEY", kKey}, {"XDG_CACHE_HOME", "/c"}, {"AWS_ACCESS_KEY_ID", "a"}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->cache, "/c/mtrun/data");
  EXPECT_EQ(request->open.secrets.data_key, kKey);
  EXPECT_EQ(request->open.secrets.access_key, "");  // for another service
  EXPECT_EQ(request->open.cache_bytes, int64_t{2} << 30);
}

TEST(SetRequestTest, DataKeyOfAnEarlierVersionIsRefusedWithAdvice) {
  const absl::Status refused =
      MakeSetRequest("https://h:1/x", {}, {{"MTRUN_DATA_KEY", std::string(64, 'a')}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("MTRUN_DATA_KEY"), HasSubstr("`mtdata key`")));
}

TEST(SetRequestTest, S3GetsTheAwsKeys) {
  const auto request = MakeSetRequest("s3://b/x", {.cache = "/c"},
                                      {{"MTRUN_DATA_KEY", kKey},
                                       {"AWS_ACCESS_KEY_ID", "a"},
                                       {"AWS_SECRET_ACCESS_KEY", "s"},
                                       {"AWS_DEFAULT_REGION", "r"},
                                       {"AWS_ENDPOINT_URL", "https://e"}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->open.secrets, (fetch::Secrets{.access_key = "a", .secret_key = "s"}));
  EXPECT_EQ(request->open.s3_endpoint, "https://e");
  EXPECT_EQ(request->open.s3_region, "r");
}

TEST(SetRequestTest, RedirectsAreFollowedIfAllowed) {
  for (const bool allowed : {false, true}) {
    const auto request = MakeSetRequest("https://h/x", {.redirects = allowed}, {{"MTRUN_DATA_KEY", kKey}});
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->open.redirects, allowed);
  }
}

TEST(SetRequestTest, BearerIsTheSingleWordOfItsFile) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("word"), " theirs\n");
  const EnvironmentMap environment = {{"MTRUN_DATA_KEY", kKey}};
  const auto request = MakeSetRequest("https://h/x", {.bearer_file = folder.File("word")}, environment);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->open.secrets, (fetch::Secrets{.data_key = kKey, .bearer = "theirs"}));
  support::WriteText(folder.File("words"), "theirs and\nmore");
  const auto ask = [&](const std::string& file) {
    return std::string(
        MakeSetRequest("https://h/x", {.bearer_file = folder.File(file)}, environment).status().message());
  };
  EXPECT_THAT(ask("words"), AllOf(HasSubstr("--data_bearer_file"), HasSubstr("a single word")));
  EXPECT_THAT(ask("nowhere"), HasSubstr("--data_bearer_file"));
}

TEST(SetRequestTest, SetAboveTheBoundIsRefusedWithAdvice) {
  EXPECT_TRUE(CheckFits("u", 100, 0).ok());
  EXPECT_TRUE(CheckFits("u", 100, 100).ok());
  const absl::Status refused = CheckFits("https://h/x", int64_t{5} << 30, int64_t{2} << 30);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("5 GiB"), HasSubstr("--cache_gib 6"), HasSubstr("copy")));
}

}  // namespace
}  // namespace mtrun::datasets
