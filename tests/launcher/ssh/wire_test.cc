#include "launcher/ssh/wire.h"

#include <signal.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

Order SomeOrder() {
  return {.token = "secret",
          .nonce = "0123",
          .folder = "/home/me/a folder",
          .environment = {{"A", "1"}, {"B", "two\nlines"}, {"C", ""}},
          .args = {"--nnodes", "2", "train.py", "it's", "\xff\xfe", ""},
          .settings = {{"node_rank", "1", "the order of the hosts"}, {"hosts", "", "ssh"}}};
}

Order DecodedFrom(const std::string& message) {
  HostInput input;
  input.Append(message);
  const auto read = input.Next();
  EXPECT_TRUE(read.ok() && *read && std::holds_alternative<Order>(**read)) << read.status();
  return read.ok() && *read ? std::get<Order>(**read) : Order();
}

TEST(WireTest, StartCommandRoundTrips) {
  EXPECT_EQ(DecodedFrom(Encode(SomeOrder())), SomeOrder());
  EXPECT_EQ(DecodedFrom(Encode(Order())), Order());
}

TEST(WireTest, MessagesMayArriveInPieces) {
  const std::string all =
      absl::StrCat(EncodeBeat(), Encode(SomeOrder()), EncodeSignal(SIGTERM), EncodeBeat());
  HostInput input;
  std::vector<HostInput::Message> messages;
  for (const char byte : all) {
    input.Append({&byte, 1});
    const auto read = input.Next();
    ASSERT_TRUE(read.ok()) << read.status();
    if (*read) messages.push_back(**read);
  }
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0], HostInput::Message(HostInput::Beat()));
  EXPECT_EQ(messages[1], HostInput::Message(SomeOrder()));
  EXPECT_EQ(messages[2], HostInput::Message(HostInput::Signal{SIGTERM}));
}

TEST(WireTest, MalformedInputIsRefused) {
  const std::string zero(1, '\0');
  for (const std::string& bad :
       {std::string("hello\n"), std::string("order\n"), std::string("order x\n"), std::string("order -1\n"),
        std::string("order 99999999999\n"), std::string("order 3\nabc"), std::string("order 4\n5:ab"),
        std::string("signal\n"), std::string("signal x\n"), std::string("signal -9\n"), std::string(100, 'x'),
        absl::StrCat("order 3\n1:", zero), std::string("order 0\n")}) {
    HostInput input;
    input.Append(bad);
    EXPECT_FALSE(input.Next().ok()) << bad;
  }
  // A count that is too large, and text after the last field.
  EXPECT_FALSE(DecodeOrder("1:t1:n1:f5:99999").ok());
  EXPECT_FALSE(DecodeOrder("1:t1:n1:f1:01:01:01:x").ok());
  EXPECT_TRUE(DecodeOrder("1:t1:n1:f1:01:01:0").ok());
}

TEST(WireTest, GreetingIsFoundInShellOutput) {
  const Greeting greeting = {.version = "0.2.0", .host = "node1", .address = "10.0.0.1"};
  HostOutput output;
  EXPECT_EQ(output.Feed("Welcome!\nmtrun-over-ssh-1 is none\nno newline").greeting, std::nullopt);
  const HostOutput::Piece piece = output.Feed(Encode(greeting) + "rank 0\n");
  EXPECT_EQ(piece.greeting, greeting);
  EXPECT_EQ(piece.output, "rank 0\n");
  EXPECT_EQ(output.Feed("more").output, "more");
  // An mtrun with another protocol cannot read this one's start command: it must not be taken for a
  // compatible one, whatever its version.
  HostOutput other;
  const auto named = other.Feed("mtrun-over-ssh-1 0.2.0 node1 10.0.0.1\n").greeting;
  ASSERT_TRUE(named.has_value());
  EXPECT_NE(named->version, greeting.version);
  EXPECT_EQ(named->version.substr(0, 6), "0.2.0 ");
  const Greeting bare = {.version = "1", .host = "", .address = ""};
  EXPECT_EQ(HostOutput().Feed(Encode(bare)).greeting, bare);
  EXPECT_EQ(HostOutput().Feed(std::string(100'000, 'x') + Encode(bare)).greeting, bare);
}

TEST(WireTest, OutputThatResemblesAnEndMarkerIsNotOne) {
  const std::string zero(1, '\0');
  const std::string sent =
      absl::StrCat("a", zero, "b", zero, "mtrun ended x\n", zero, "mtrun ended N \n", zero,
                   "mtrun ended N 1234\n", zero, "mtrun ended N  41\n", zero, "mtrun ended N -41\n", zero,
                   "mtrun ended 0\n", zero, "mtrun ended M 0\n", EncodeEnd(0, ""), zero);
  for (const size_t cut : {size_t{1}, size_t{3}, size_t{7}, size_t{1000}}) {
    HostOutput output("N");
    output.Feed(Encode(Greeting{"1", "h", ""}));
    std::string got;
    std::optional<int> status;
    const std::string all = sent + EncodeEnd(137, "N");
    for (size_t at = 0; at < all.size(); at += cut) {
      const HostOutput::Piece piece = output.Feed(std::string_view(all).substr(at, cut));
      got += piece.output;
      if (piece.end_status) status = piece.end_status;
    }
    EXPECT_EQ(got, sent) << cut;
    EXPECT_EQ(status, 137) << cut;
    EXPECT_EQ(output.Flush(), "");
  }
  HostOutput output("N");
  output.Feed(Encode(Greeting{"1", "h", ""}));
  EXPECT_EQ(output.Feed(absl::StrCat("x", zero, "mtrun en")).output, "x");
  EXPECT_EQ(output.Flush(), absl::StrCat(zero, "mtrun en"));
}

TEST(WireTest, ZeroBytesAreOrdinaryOutput) {
  std::string sent(300, '\0');
  for (const size_t at : {size_t{40}, size_t{41}, size_t{150}, sent.size() - 1}) sent[at] = '\n';
  sent.replace(200, 6, "mtrun ");
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}, size_t{1000}}) {
    HostOutput output("N");
    output.Feed(Encode(Greeting{"1", "h", ""}));
    const std::string all = sent + EncodeEnd(3, "N");
    std::string got;
    std::optional<int> status;
    for (size_t at = 0; at < all.size(); at += cut) {
      const HostOutput::Piece piece = output.Feed(std::string_view(all).substr(at, cut));
      got += piece.output;
      if (piece.end_status) status = piece.end_status;
    }
    EXPECT_TRUE(got == sent) << cut;
    EXPECT_EQ(status, 3) << cut;
  }
}

/// Input that arrives byte by byte must not be moved for each byte: that would take an hour.
TEST(WireTest, ManyZerosAndLinesTakeLinearTime) {
  const std::string lines(16 << 20, '\n'), zeros(16 << 20, '\0');
  const Greeting greeting = {"1", "h", ""};
  HostOutput output("N");
  const HostOutput::Piece piece =
      output.Feed(absl::StrCat(lines, Encode(greeting), zeros, EncodeEnd(0, "N")));
  EXPECT_EQ(piece.greeting, greeting);
  EXPECT_TRUE(piece.output == zeros) << piece.output.size();
  EXPECT_EQ(piece.end_status, 0);
}

}  // namespace
}  // namespace mtrun::launcher
