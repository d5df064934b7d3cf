#include "launcher/store/store_requests.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/store_client.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

const StoreRequest kGreeting = {.command = StoreCommand::kValidate, .number = StoreParser::kMagic};

/// Returns one request of each command.
std::vector<StoreRequest> AllRequests() {
  using enum StoreCommand;
  return {kGreeting,
          {kSet, {"key"}, {"value"}},
          {kCompareSet, {"key"}, {"", std::string("\0b", 2)}},
          {kGet, {"key"}},
          {kAdd, {"key"}, {}, -3},
          {kCheck, {"a", "b"}},
          {kWait, {"a", "b", ""}},
          {kNumKeys},
          {kDelete, {"key"}},
          {kAppend, {"key"}, {"more"}},
          {kMultiGet, {"a", "b"}},
          {kMultiSet, {"a", "b"}, {"1", "2"}},
          {kCancelWait},
          {kPing, {}, {}, 77},
          {kQueuePush, {"q"}, {"1"}},
          {kQueuePop, {"q"}},
          {kQueueLength, {"q"}},
          {kListKeys},
          {kBarrier, {"b"}, {}, 4},
          {kWait},
          {kMultiSet}};
}

TEST(StoreRequestsTest, EveryCommandIsReadHoweverItsBytesAreSplit) {
  std::string all;
  for (const StoreRequest& request : AllRequests()) all += Encode(request);
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{64}, all.size()}) {
    StoreParser parser;
    std::vector<StoreRequest> read;
    for (size_t at = 0; at < all.size(); at += piece) {
      parser.Append(std::string_view(all).substr(at, piece));
      for (auto request = parser.Next();; request = parser.Next()) {
        ASSERT_TRUE(request.ok()) << request.status();
        if (!*request) break;
        read.push_back(**request);
      }
    }
    EXPECT_EQ(read, AllRequests()) << "in pieces of " << piece;
  }
}

/// As written by PyTorch 2.11's client.
TEST(StoreRequestsTest, BytesMatchPyTorch) {
  StoreParser parser;
  parser.Append(std::string_view("\x00\xce\xf7\x85\x3c", 5));                          // connect
  parser.Append(std::string_view("\x01\x02\0\0\0\0\0\0\0/k\x01\0\0\0\0\0\0\0v", 20));  // set("k", "v")
  EXPECT_EQ(**parser.Next(), kGreeting);
  EXPECT_EQ(**parser.Next(), (StoreRequest{StoreCommand::kSet, {"/k"}, {"v"}}));
}

std::string ErrorOf(std::string_view bytes) {
  StoreParser parser;
  parser.Append(bytes);
  auto request = parser.Next();
  while (request.ok() && *request) request = parser.Next();
  return std::string(request.status().message());
}

TEST(StoreRequestsTest, OtherProtocolsAreRefusedAtTheFirstBytes) {
  EXPECT_THAT(ErrorOf("GET / HTTP/1.1\r\n"), HasSubstr("command 71"));
  EXPECT_THAT(ErrorOf(std::string("\0abcd", 5)), HasSubstr("not a TCPStore's"));
  EXPECT_THAT(ErrorOf(Encode({StoreCommand::kGet, {"a"}})), HasSubstr("before the greeting"));
  EXPECT_THAT(ErrorOf(Encode(kGreeting) + Encode(kGreeting)), HasSubstr("second"));
}

TEST(StoreRequestsTest, SizesAreCheckedBeforeTheBytesArrive) {
  const auto size = [](uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const std::string begin = Encode(kGreeting);
  EXPECT_THAT(ErrorOf(begin + "\x03" + size(StoreParser::kMaxKeyBytes + 1)), HasSubstr("8193"));
  EXPECT_THAT(ErrorOf(begin + "\x06" + size(uint64_t{1} << 60)), HasSubstr("keys"));
  EXPECT_THAT(ErrorOf(begin + "\x01" + size(1) + "k" + size(~uint64_t{0})), HasSubstr("more than 8388608"));
  StoreRequest large = {StoreCommand::kMultiSet};
  for (int i = 0; i < 9; ++i) {
    large.keys.push_back("k");
    large.values.emplace_back(StoreParser::kMaxValueBytes, 'v');
  }
  EXPECT_THAT(ErrorOf(begin + Encode(large)), HasSubstr("in one request"));
}

}  // namespace
}  // namespace mtrun::launcher
