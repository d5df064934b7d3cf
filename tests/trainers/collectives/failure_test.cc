#include "trainers/collectives/failure.h"

#include <poll.h>

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

bool IsReadable(const Failure& failure) {
  pollfd event = {failure.event_fd(), POLLIN, 0};
  return poll(&event, 1, 0) == 1;
}

TEST(FailureTest, FirstStatusIsKept) {
  Failure failure;
  EXPECT_TRUE(failure.status().ok());
  EXPECT_FALSE(failure.failed() || IsReadable(failure));
  EXPECT_TRUE(failure.Set(absl::UnavailableError("first")));
  EXPECT_FALSE(failure.Set(absl::AbortedError("second")));
  EXPECT_EQ(failure.status(), absl::UnavailableError("first"));
  EXPECT_TRUE(failure.failed());
  EXPECT_TRUE(IsReadable(failure) && IsReadable(failure)) << "for everybody who polls";
}

}  // namespace
}  // namespace mtrun::collectives
