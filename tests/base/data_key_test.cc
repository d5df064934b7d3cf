#include "base/data_key.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

const std::string kToken = "mtrun1-" + std::string(64, 'a');

TEST(DataKey, EachDerivedSecretDiffers) {
  const std::string secret = ReadingSecretOf(kToken);
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(secret, ReadingSecretOf(kToken));
  EXPECT_NE(secret, ReadingSecretOf(kToken + "b"));
  EXPECT_NE(BearerOf(secret, true), BearerOf(secret, false));
  EXPECT_NE(BearerOf(secret, true), secret);
  EXPECT_NE(MetricsBearerOf(secret, true), MetricsBearerOf(secret, false));
  EXPECT_NE(MetricsBearerOf(secret, true), BearerOf(secret, true));
}

/// With the server's private key a client could impersonate the server.
TEST(DataKey, PrivateKeyOfTheServerDoesNotDeriveFromTheKeyOfAClient) {
  const auto key = DataKeyOf(kToken);
  const auto server = DataServerIdentity(kToken);
  ASSERT_TRUE(key.ok() && server.ok()) << key.status() << server.status();
  EXPECT_EQ(key->pin, PublicKeyPin(*server).value_or(""));
  EXPECT_EQ(*key, DataKeyOf(kToken).value());
  EXPECT_NE(key->pin, DataKeyOf(kToken + "b")->pin);
  for (const std::string& known : {key->secret, key->pin, ToText(*key), BearerOf(key->secret, true)})
    EXPECT_NE(DeriveIdentity(known)->private_key, server->private_key);
}

TEST(DataKey, TextRoundTrips) {
  const DataKey key{std::string(64, 'a'), std::string(64, '0')};
  EXPECT_EQ(ParseDataKey(ToText(key)).value(), key);
  // The first is the form of earlier versions.
  for (const std::string& text :
       {std::string(64, 'a'), ToText(key) + "0", "." + ToText(key), std::string("."),
        std::string(64, 'A') + "." + std::string(64, '0'), std::string()}) {
    const absl::Status status = ParseDataKey(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "`mtdata key`")) << status;
  }
}

TEST(DataKey, VariablePrecedesTheTokenUnlessAFileIsGiven) {
  const std::string key = ToText({std::string(64, '1'), std::string(64, '2')});
  const std::string of_token = ToText(*DataKeyOf(kToken));
  EXPECT_EQ(*FindDataKey({{kDataKeyVariable, key}, {"MTRUN_TOKEN", kToken}}), key);
  EXPECT_EQ(*FindDataKey({{"MTRUN_TOKEN", kToken}}), of_token);
  EXPECT_EQ(*FindDataKey({{"MTRUN_TOKEN", kToken}, {"MTRUN_SOCKET", "@nothing listens here"}}), of_token);
  EXPECT_TRUE(absl::IsNotFound(FindDataKey({{"HOME", "/nonexistent"}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(FindDataKey({{kDataKeyVariable, "k"}}).status()));
  EXPECT_TRUE(FindDataKey({{kDataKeyVariable, key}}, {.file = "/nonexistent"})
                  .status()
                  .message()
                  .find("/nonexistent") != std::string::npos);
}

}  // namespace
}  // namespace mtrun
