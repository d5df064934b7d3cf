// Against the examples that Amazon publishes: its Signature Version 4 test suite, and "Examples: Signature
// calculations" of the S3 API reference.
#include "datasets/remote/aws_signature.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::EndsWith;

constexpr int64_t kSuiteTime = 1440938160;  // 2015-08-30 12:36:00
constexpr int64_t kS3Time = 1369353600;     // 2013-05-24

const AwsIdentity kSuite{.access_key = "AKIDEXAMPLE",
                         .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                         .service = "service"};
const AwsIdentity kS3{.access_key = "AKIAIOSFODNN7EXAMPLE",
                      .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

AwsRequest Suite(const std::string& path, const std::string& query) {
  return {.host = "example.amazonaws.com", .path = path, .query = query, .payload_header = false};
}
AwsRequest Bucket(const std::string& path, const std::string& query) {
  return {.host = "examplebucket.s3.amazonaws.com", .path = path, .query = query};
}
std::string Authorization(const AwsRequest& request, const AwsIdentity& identity, int64_t time) {
  return AwsSign(request, identity, time).at("authorization");
}

TEST(AwsSignature, Time) { EXPECT_EQ(AwsTime(kSuiteTime), "20150830T123600Z"); }

TEST(AwsSignature, TheSuitesGetVanilla) {
  EXPECT_EQ(Authorization(Suite("/", ""), kSuite, kSuiteTime),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(AwsSignature, TheSuitesQueryInAnyOrder) {
  EXPECT_THAT(Authorization(Suite("/", "Param2=value2&Param1=value1"), kSuite, kSuiteTime),
              EndsWith("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
}

TEST(AwsSignature, S3sGetObject) {
  AwsRequest request = Bucket("/test.txt", "");
  request.headers = {{"range", "bytes=0-9"}};
  EXPECT_EQ(Authorization(request, kS3, kS3Time),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(AwsSignature, S3sBucketLifecycleAndList) {
  EXPECT_THAT(Authorization(Bucket("/", "lifecycle"), kS3, kS3Time),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(Authorization(Bucket("/", "max-keys=2&prefix=J"), kS3, kS3Time),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(AwsSignature, ASessionsTokenIsSignedToo) {
  AwsIdentity identity = kS3;
  identity.session_token = "session";
  const auto headers = AwsSign(Bucket("/", ""), identity, kS3Time);
  EXPECT_EQ(headers.at("x-amz-security-token"), "session");
  EXPECT_THAT(headers.at("authorization"), testing::HasSubstr("x-amz-date;x-amz-security-token"));
}

TEST(AwsSignature, Encoding) {
  EXPECT_EQ(AwsEncode("a/b c~\xc3\xa9+", true), "a/b%20c~%C3%A9%2B");
  EXPECT_EQ(AwsEncode("a/b", false), "a%2Fb");
}

}  // namespace
}  // namespace mtrun::datasets
