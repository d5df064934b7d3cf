#include "rendezvous/service/end_calls.h"

#include <string>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

/// The answers: "e" for the end, "-" for none here.
struct Caller {
  std::string answers;
  bool gone = false;
  EndCalls::Call Call() {
    return {[this] { return gone; }, [this](bool ended) { answers += ended ? "e" : "-"; }};
  }
};

TEST(EndCalls, EveryCallerIsNotifiedOfTheEndOnce) {
  EndCalls calls;
  Caller first, second;
  calls.Add(first.Call());
  calls.Add(second.Call());
  EXPECT_EQ(first.answers + second.answers, "") << "they wait";
  calls.OnEnded();
  calls.OnEnded();
  calls.Close();
  EXPECT_EQ(first.answers, "e");
  EXPECT_EQ(second.answers, "e");
}

TEST(EndCalls, EndOfTheServiceDoesNotEndTheJob) {
  EndCalls calls;
  Caller before, after;
  calls.Add(before.Call());
  calls.Close();
  EXPECT_EQ(before.answers, "-");
  calls.Add(after.Call());
  EXPECT_EQ(after.answers, "-");
  EXPECT_TRUE(calls.empty());
}

TEST(EndCalls, CancelledCallFreesItsPlace) {
  EndCalls calls;
  Caller here, gone, late, more;
  gone.gone = true;
  for (size_t i = 1; i < EndCalls::kMost; ++i) calls.Add(here.Call());
  calls.Add(gone.Call());
  calls.Add(late.Call());
  EXPECT_EQ(gone.answers, "-");
  EXPECT_EQ(late.answers, "") << "it has the place of the one that has gone";
  calls.Add(more.Call());
  EXPECT_EQ(more.answers, "-") << "too many";
}

}  // namespace
}  // namespace mtrun::rendezvous
