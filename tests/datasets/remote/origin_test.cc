#include "datasets/remote/origin.h"

#include "absl/strings/escaping.h"
#include "base/data_key.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const std::string kKey = std::string(64, 'a') + "." + std::string(64, 'b');

Origin OriginOf(const fetch::Open& open) {
  auto origin = Origin::Make(open);
  EXPECT_TRUE(origin.ok()) << origin.status();
  return *origin;
}

TEST(OriginTest, DerivedBearerIsSentOnlyToAServerWithTheKey) {
  const Origin origin = OriginOf({.url = "https://h:1/x", .secrets = {.data_key = kKey, .bearer = "theirs"}});
  EXPECT_EQ(origin.first_trust(), Trust::kDataKey);
  const FetchRequest own = origin.RequestFor("index.json", Trust::kDataKey);
  EXPECT_EQ(own.url, "https://h:1/x/index.json");
  EXPECT_THAT(own.headers,
              ElementsAre(Pair("Authorization", "Bearer " + BearerOf(std::string(64, 'a'), true))));
  EXPECT_EQ(own.pin, "sha256//" + absl::Base64Escape(std::string(32, '\xBB')));
  const FetchRequest other = origin.RequestFor("index.json", Trust::kSystem);
  EXPECT_EQ(other.pin, "");
  EXPECT_THAT(other.headers, ElementsAre(Pair("Authorization", "Bearer theirs")));
}

TEST(OriginTest, InvalidDataKeyIsRefused) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(Origin::Make({.url = "https://h/x", .secrets = {.data_key = "k"}}).status()));
}

TEST(OriginTest, OtherServerGetsNoSecret) {
  const Origin origin = OriginOf({.url = "https://h/x", .secrets = {.data_key = kKey}});
  EXPECT_THAT(origin.RequestFor("index.json", Trust::kSystem).headers, IsEmpty());
}

TEST(OriginTest, RedirectToAnotherHostIsFollowedIfAllowedAndSendsNoSecret) {
  fetch::Open open{.url = "https://h:1/x", .secrets = {.data_key = kKey, .bearer = "theirs"}};
  for (const Trust trust : {Trust::kDataKey, Trust::kSystem}) {
    open.redirects = false;
    const absl::Status refused = OriginOf(open).Redirected("https://o/f", trust, 0).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--data_redirects"));
    open.redirects = true;
    EXPECT_EQ(OriginOf(open).Redirected("https://o/f", trust, 0).value(),
              (FetchRequest{.url = "https://o/f", .trust = Trust::kSystem}));
    EXPECT_THAT(OriginOf(open).Redirected("https://h:2/f", trust, 0)->headers, IsEmpty()) << "another port";
    const auto refuses = [](const testing::Matcher<std::string>& why) {
      return support::StatusIs(absl::StatusCode::kPermissionDenied, why);
    };
    EXPECT_THAT(OriginOf(open).Redirected("http://127.0.0.1:1/f", trust, 0),
                refuses("it leads away from https"));
    EXPECT_THAT(OriginOf(open).Redirected("http://h:1/f", trust, 0),
                refuses(HasSubstr("http:// is only for this machine")));
    EXPECT_THAT(OriginOf(open).Redirected("s3://h/f", trust, 0), refuses("it leads away from https"));
    EXPECT_TRUE(OriginOf(open).Redirected("https://o/f", trust, 4).ok());
    EXPECT_THAT(OriginOf(open).Redirected("https://o/f", trust, 5), refuses("more than 5 redirects"))
        << "a circle";
  }
}

TEST(OriginTest, RedirectWithinAHostSendsTheSameHeaders) {
  for (const bool redirects : {false, true}) {
    const Origin origin = OriginOf(
        {.url = "https://h:1/x", .secrets = {.data_key = kKey, .bearer = "theirs"}, .redirects = redirects});
    for (const Trust trust : {Trust::kDataKey, Trust::kSystem}) {
      FetchRequest same = origin.RequestFor("f", trust);
      same.url = "https://h:1/y?signed=1";
      EXPECT_EQ(origin.Redirected(same.url, trust, 0).value(), same);
    }
  }
}

TEST(OriginTest, LoopbackUsesNoProxyAndAnotherBearer) {
  const FetchRequest request = OriginOf({.url = "http://127.0.0.1:80/x", .secrets = {.data_key = kKey}})
                                   .RequestFor("f", Trust::kSystem);
  EXPECT_TRUE(request.direct);
  EXPECT_THAT(request.headers,
              ElementsAre(Pair("Authorization", "Bearer " + BearerOf(std::string(64, 'a'), false))));
}

TEST(OriginTest, S3RequestsUsePathStyle) {
  const fetch::Secrets keys{.access_key = "a", .secret_key = "s"};
  const FetchRequest request =
      OriginOf({.url = "s3://bucket/some/set", .secrets = keys, .s3_endpoint = "https://store:9000"})
          .RequestFor("train/shard_00000.safetensors", Trust::kSystem);
  EXPECT_EQ(request.url, "https://store:9000/bucket/some/set/train/shard_00000.safetensors");
  EXPECT_EQ(request.s3_keys, (S3Keys{"a", "s", "us-east-1"}));
  EXPECT_THAT(request.headers, ElementsAre(Pair("x-amz-content-sha256", Sha256Hex(""))));
  EXPECT_EQ(
      OriginOf({.url = "s3://b/x", .secrets = keys, .s3_region = "r"}).RequestFor("f", Trust::kSystem).url,
      "https://s3.r.amazonaws.com/b/x/f");
  EXPECT_THAT(Origin::Make({.url = "s3://b/x"}),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("s3://b/x needs keys")));
  const auto with = [&](const char* endpoint) {
    return Origin::Make({.url = "s3://b/x", .secrets = keys, .s3_endpoint = endpoint});
  };
  EXPECT_THAT(with("s3://example.org"), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                          "AWS_ENDPOINT_URL must begin with https://"));
  EXPECT_THAT(with("http://example.org"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("AWS_ENDPOINT_URL: \"http://example.org\": http:// is only for")));
}

TEST(OriginTest, S3SessionTokenIsSent) {
  const fetch::Secrets keys{.access_key = "a", .secret_key = "s", .session_token = "t"};
  EXPECT_THAT(OriginOf({.url = "s3://b/x", .secrets = keys}).RequestFor("f", Trust::kSystem).headers,
              testing::Contains(Pair("x-amz-security-token", "t")));
}

// The store signs the path after decoding and encoding it again, independent of the encoding in the request.
TEST(OriginTest, S3PathsInAnyFormAreEncodedLikeTheStore) {
  const fetch::Secrets keys{.access_key = "a", .secret_key = "s"};
  const auto ask = [&](const std::string& url, const std::string& endpoint = "https://h") {
    return OriginOf({.url = url, .secrets = keys, .s3_endpoint = endpoint}).RequestFor("f", Trust::kSystem);
  };
  const FetchRequest encoded = ask("s3://b/d%3D1/x%2By%40%C3%A9");
  EXPECT_EQ(encoded.url, "https://h/b/d%3D1/x%2By%40%C3%A9/f");
  EXPECT_EQ(ask("s3://b/d=1/x+y@\xc3\xa9"), encoded);
  EXPECT_EQ(ask("s3://b/%64=1/x%2by%40%c3%a9"), encoded);
  EXPECT_EQ(ask("s3://b/50%/%zz%2").url, "https://h/b/50%25/%25zz%252/f");
  EXPECT_EQ(ask("s3://b/x", "https://h/a:b").url, "https://h/a%3Ab/b/x/f");
}

}  // namespace
}  // namespace mtrun::datasets
