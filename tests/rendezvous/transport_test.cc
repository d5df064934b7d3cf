#include "rendezvous/client/transport.h"

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST(JudgeCredentials, OnlyPermanentErrorsAreFinal) {
  const grpc::Status refused(grpc::StatusCode::UNAVAILABLE,
                             "Ssl handshake failed: SSL_ERROR_SSL: certificate verify failed");
  const grpc::Status plain(grpc::StatusCode::UNAVAILABLE,
                           "Ssl handshake failed: SSL_ERROR_SSL: wrong version number");
  const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "Connection refused");
  EXPECT_TRUE(absl::IsUnauthenticated(JudgeCredentials("e:1", refused, false)));
  EXPECT_TRUE(absl::IsFailedPrecondition(JudgeCredentials("e:1", plain, false)));
  EXPECT_TRUE(JudgeCredentials("e:1", away, false).ok());
}

TEST(JudgeRefusal, RefusalByTheServiceIsFinal) {
  const grpc::Status version(grpc::StatusCode::FAILED_PRECONDITION, "speaks protocol 2");
  const absl::Status judged = JudgeRefusal("e:1", version, true);
  EXPECT_TRUE(absl::IsFailedPrecondition(judged));
  EXPECT_EQ(judged.message(), "the rendezvous service at e:1 refuses: speaks protocol 2");
  EXPECT_TRUE(
      JudgeRefusal("e:1", grpc::Status(grpc::StatusCode::UNAVAILABLE, "Connection refused"), true).ok());
  EXPECT_TRUE(JudgeRefusal("e:1", grpc::Status(grpc::StatusCode::ABORTED, "replaced"), true).ok());
}

// The check costs gRPC much of its time, and a lock order that it rejects would abort mtrun.
TEST(PrepareGrpc, DisablesDeadlockDetectionOfMutexes) {
  PrepareGrpc();
  absl::Mutex first, second;
  first.Lock();
  second.Lock();
  second.Unlock();
  first.Unlock();
  second.Lock();
  first.Lock();
  first.Unlock();
  second.Unlock();
}

TEST(WhyUnreachable, NamesAnotherProgramAtThePort) {
  const auto why = [](const char* text) {
    return WhyUnreachable(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
  };
  EXPECT_THAT(why("ipv4:127.0.0.1:29477: Failed parsing HTTP/2"), HasSubstr("another program is listening"));
  EXPECT_THAT(why("Trying to connect an http1.x server"), HasSubstr("another program is listening"));
  EXPECT_EQ(why("Handshake read failed"), "Handshake read failed; is it another program that listens there?");
  EXPECT_EQ(why("Connection refused"), "Connection refused");
}

}  // namespace
}  // namespace mtrun::rendezvous
