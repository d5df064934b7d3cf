#include "datasets/remote/fetch_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using Kind = Judgement::Kind;
using Link = TransferEnd::Link;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Kind Of(int status, int tries = 1) { return JudgeTransfer({.status = status}, "u", tries, false).kind; }

TEST(FetchRules, ByStatus) {
  for (const int status : {200, 206}) EXPECT_EQ(Of(status), Kind::kDone) << status;
  for (const int status : {408, 425, 429, 500, 502, 503, 504})
    EXPECT_EQ(Of(status, 100), Kind::kAgain) << status;
  for (const int status : {400, 401, 403, 405, 407, 301, 204}) EXPECT_EQ(Of(status), Kind::kNever) << status;
  EXPECT_EQ(Of(416), Kind::kRestart);
  EXPECT_EQ(Of(404, 1), Kind::kAgain);  // a set that is being replaced
  EXPECT_EQ(Of(404, 3), Kind::kNever);
  EXPECT_EQ(JudgeTransfer({.status = 302, .location = "https://h/x"}, "u", 1, false).kind, Kind::kFollow);
}

TEST(FetchRules, OnlyNotFoundAnswersCountAsMissing) {
  const auto final = [](const Tries& tries) {
    return JudgeTransfer({.status = 404}, "u", tries.missing, false).kind == Kind::kNever;
  };
  Tries tries;
  for (int i = 0; i < 5; ++i) tries.Count({.status = 503});
  tries.Count({.status = 404});
  EXPECT_EQ(tries, (Tries{.all = 6, .missing = 1}));
  EXPECT_FALSE(final(tries)) << "the server has just come back";
  tries.Count({.status = 410});
  tries.Count({.link = Link::kBroken, .status = 404});
  EXPECT_EQ(tries, (Tries{.all = 8, .missing = 0}));
  for (int i = 0; i < 3; ++i) {
    tries.Count({.status = 302, .location = "https://h/x"});
    tries.Count({.status = 404});
  }
  EXPECT_EQ(tries, (Tries{.all = 11, .missing = 3}));
  EXPECT_TRUE(final(tries));
}

TEST(FetchRules, NetworkErrorIsRetriedAndUntrustedServerIsNot) {
  EXPECT_EQ(JudgeTransfer({.link = Link::kBroken, .error = "refused"}, "u", 1000, true),
            (Judgement{Kind::kAgain, "u: refused"}));
  EXPECT_EQ(JudgeTransfer({.link = Link::kNotWritten, .error = "disk full"}, "u", 1, false).kind,
            Kind::kAgain);
  const Judgement untrusted = JudgeTransfer({.link = Link::kUntrusted, .error = "x"}, "u", 1, false);
  EXPECT_EQ(untrusted.kind, Kind::kNever);
  EXPECT_THAT(untrusted.text, HasSubstr("token"));
  EXPECT_THAT(JudgeTransfer({.status = 401}, "u", 1, false).text, HasSubstr("--data_bearer_file"));
}

TEST(FetchRules, SlowTransferIsNoticedAfterFiveSeconds) {
  const TimePoint begin{};
  const auto at = [&](int seconds) { return begin + std::chrono::seconds(seconds); };
  SlowWatch watch(begin);
  int64_t bytes = 0;
  for (int second = 1; second < 5; ++second) EXPECT_FALSE(watch.Look(at(second), bytes += 2)) << second;
  EXPECT_DOUBLE_EQ(watch.Look(at(5), bytes += 2).value_or(-1), 2);
  EXPECT_TRUE(watch.Look(at(9), bytes += 1 << 20)) << "the last full five seconds were slow";
  EXPECT_FALSE(watch.Look(at(10), bytes));
  EXPECT_FALSE(watch.Look(at(14), bytes));
  EXPECT_DOUBLE_EQ(watch.Look(at(15), bytes).value_or(-1), 0);
}

TEST(FetchRules, TransferAtTheLeastSpeedIsNotSlow) {
  for (const int64_t rate : {kLeastBytesASecond - 1, kLeastBytesASecond}) {
    SlowWatch watch(TimePoint{});
    EXPECT_EQ(watch.Look(TimePoint{} + std::chrono::seconds(8), 8 * rate).has_value(),
              rate < kLeastBytesASecond);
  }
}

TEST(FetchRules, NoticeOfASlowTransferNamesUrlRateAndLimits) {
  EXPECT_EQ(
      SlowText("https://h:1/set/index.json", 2.2),
      "https://h:1/set/index.json arrives with only 2 bytes per second; after 15 s with fewer than 1024 it "
      "is requested again");
}

TEST(FetchRules, ErrorOfARefusingStoreNamesItsKeys) {
  for (const int status : {400, 401, 403, 301}) {
    const Judgement refused = JudgeTransfer({.status = status}, "s3://b/s", 1, true);
    EXPECT_EQ(refused.kind, Kind::kNever) << status;
    EXPECT_THAT(refused.text, AllOf(HasSubstr("AWS_SECRET_ACCESS_KEY"), HasSubstr("AWS_REGION"),
                                    Not(HasSubstr("--data_bearer_file"))))
        << status;
  }
  EXPECT_THAT(JudgeTransfer({.status = 403}, "https://h/s", 1, false).text, Not(HasSubstr("AWS_")));
}

/// Another program may use the server's port for a while.
TEST(FetchRules, AuthenticatedServerIsAwaitedIfAnotherAnswers) {
  const Judgement untrusted = JudgeTransfer({.link = Link::kUntrusted, .error = "x"}, "https://h/s", 1, true);
  EXPECT_EQ(untrusted.kind, Kind::kAgain);
  EXPECT_THAT(untrusted.text, HasSubstr("not trusted"));
  for (const int status : {401, 403, 407}) {
    const Judgement plain = JudgeTransfer({.status = status}, "http://h/s", 1, true);
    EXPECT_EQ(plain.kind, Kind::kAgain) << status;
    EXPECT_THAT(plain.text, HasSubstr("is refused")) << status;
    EXPECT_EQ(JudgeTransfer({.status = status}, "http://h/s", 1, false).kind, Kind::kNever) << status;
    EXPECT_EQ(JudgeTransfer({.status = status}, "https://h/s", 1, true).kind, Kind::kNever)
        << "its certificate is the right one";
  }
}

TEST(FetchRules, DiskErrorIsNotTheServersFault) {
  EXPECT_FALSE((WrongCopies{.whole = 1}).Hopeless());
  EXPECT_TRUE((WrongCopies{.whole = 2}).Hopeless());
  EXPECT_FALSE((WrongCopies{.whole = 1, .resumed = 9}).Hopeless());
  EXPECT_TRUE((WrongCopies{.resumed = 10}).Hopeless());
}

TEST(FetchRules, PausesGrowToABoundWithJitter) {
  using std::chrono::milliseconds;
  EXPECT_EQ(PauseBefore(1, 0, {}), milliseconds(100));
  EXPECT_EQ(PauseBefore(3, 0, {}), milliseconds(400));
  EXPECT_EQ(PauseBefore(1000, 0, {}), milliseconds(5000));
  EXPECT_EQ(PauseBefore(1000, 0.5, {}), milliseconds(3750));
  EXPECT_EQ(PauseBefore(1, 0, 7), milliseconds(7000));
  EXPECT_EQ(PauseBefore(1, 0, 1'000'000), milliseconds(60'000));
  EXPECT_EQ(PauseBefore(1, 0, -5), milliseconds(100));
}

TEST(FetchRules, OnlyNamedHostsAreContacted) {
  const DataUrl from{"https", "host", 8443, "/set"};
  EXPECT_EQ(JudgeRedirect(from, "https://host:8443/other/index.json", 0, false), (Redirect{true, true, ""}));
  for (const char* other : {"https://evil/x", "https://host:1/x", "https://127.0.0.1/x"}) {
    EXPECT_FALSE(JudgeRedirect(from, other, 0, false).follow) << other;
    EXPECT_EQ(JudgeRedirect(from, other, 0, true), (Redirect{true, false, ""})) << other;
  }
  EXPECT_TRUE(JudgeRedirect(from, "https://store/x?signature=a", 0, true).follow);
  for (const char* never :
       {"http://127.0.0.1/x", "http://host:8443/x", "ftp://x/y", "s3://b/x", "nonsense", ""})
    EXPECT_FALSE(JudgeRedirect(from, never, 0, true).follow) << never;
  EXPECT_FALSE(JudgeRedirect(from, "https://host:8443/x", 5, true).follow);
}

}  // namespace
}  // namespace mtrun::datasets
