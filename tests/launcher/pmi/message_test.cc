#include "launcher/pmi/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;

absl::StatusOr<std::optional<PmiMessage>> Parse(std::string_view bytes) {
  PmiParser parser;
  parser.Append(bytes);
  return parser.Next();
}

TEST(PmiMessage, IsEncodedForSlurm) {
  EXPECT_EQ(Encode({"kvs-put", {{"key", "k"}, {"value", "a=b"}}}), "    28cmd=kvs-put;key=k;value=a=b;");
  EXPECT_EQ(Encode({"kvs-fence"}), "    14cmd=kvs-fence;");
}

/// As written by Slurm 22.05.
TEST(PmiMessage, DecodesWhatSlurmWrites) {
  const auto message = Parse("47    cmd=kvs-get-response;rc=0;found=TRUE;value=a=b;");
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(**message, (PmiMessage{"kvs-get-response", {{"rc", "0"}, {"found", "TRUE"}, {"value", "a=b"}}}));
  EXPECT_EQ((*message)->Field("value"), "a=b");
  EXPECT_EQ((*message)->Field("nothing"), "");
}

TEST(PmiMessage, MayArriveInPieces) {
  const std::string both = Encode({"one", {{"a", "1"}}}) + Encode({"two"});
  PmiParser parser;
  std::vector<std::string> commands;
  for (const char byte : both) {
    parser.Append({&byte, 1});
    const auto message = parser.Next();
    ASSERT_TRUE(message.ok());
    if (*message) commands.push_back((*message)->command);
  }
  EXPECT_THAT(commands, testing::ElementsAre("one", "two"));
}

TEST(PmiMessage, MalformedMessageIsRefusedWithoutQuotingIt) {
  for (const char* bytes : {"abc   cmd=x;", "      cmd=x;", "-5    cmd=x;", "65537 cmd=x;", "999999",
                            "0     ", "12    secret=x;yy=", "6     secret", "13    cmd=;secret=1",
                            "14    cmd=x;secret;y=", "6     =x;y=z"}) {
    const auto message = Parse(bytes);
    EXPECT_FALSE(message.ok()) << bytes;
    EXPECT_THAT(std::string(message.status().message()), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace mtrun::launcher
