#include "launcher/pmi/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/pmi/scripted_manager.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

absl::Status BeginWith(std::vector<std::string> answers, Duration patience = kLong) {
  ScriptedManager manager(std::move(answers));
  return PmiClient(manager.TakeClient(), "5.0", 1, MonotonicNow() + patience).Begin();
}

TEST(PmiClient, SendsItsJobAndRank) {
  ScriptedManager manager({ScriptedManager::kHello, ScriptedManager::Ok("fullinit")});
  EXPECT_TRUE(PmiClient(manager.TakeClient(), "5.0", 1, MonotonicNow() + kLong).Begin().ok());
  EXPECT_EQ(manager.Heard(),
            "cmd=init pmi_version=2 pmi_subversion=0\n" +
                Encode({"fullinit", {{"pmijobid", "5.0"}, {"pmirank", "1"}, {"threaded", "FALSE"}}}));
}

TEST(PmiClient, GetReturnsTheValueOrNotFound) {
  const std::string value = Encode({"kvs-get-response", {{"rc", "0"}, {"found", "TRUE"}, {"value", "v"}}});
  const std::string none = Encode({"kvs-get-response", {{"rc", "0"}, {"found", "FALSE"}}});
  ScriptedManager manager({value, none});
  PmiClient client(manager.TakeClient(), "5.0", 1, MonotonicNow() + kLong);
  EXPECT_EQ(*client.Get("k"), "v");
  EXPECT_TRUE(absl::IsNotFound(client.Get("k").status()));
}

TEST(PmiClient, OtherServersAreRefused) {
  EXPECT_THAT(BeginWith({"HTTP/1.1 400 Bad Request\n"}).message(), HasSubstr("not that of version 2"));
  EXPECT_THAT(BeginWith({"cmd=response_to_init rc=0 pmi_version=1\n"}).message(), HasSubstr("version 2"));
  EXPECT_THAT(BeginWith({"cmd=response_to_init rc=-1 pmi_version=2\n"}).message(), HasSubstr("version 2"));
  EXPECT_THAT(BeginWith({std::string(5000, 'x')}).message(), HasSubstr("is not complete"));
  EXPECT_THAT(BeginWith({ScriptedManager::kHello, "xxxxxxxxxx"}).message(),
              HasSubstr("the answer to fullinit"));
  EXPECT_THAT(BeginWith({ScriptedManager::kHello, ScriptedManager::Ok("kvs-get")}).message(),
              HasSubstr("the answer is not to fullinit"));
  EXPECT_THAT(BeginWith({ScriptedManager::kHello, Encode({"fullinit-response", {{"rc", "14"}}})}).message(),
              HasSubstr("fullinit was refused"));
}

TEST(PmiClient, SilentManagerExceedsTheDeadline) {
  const absl::Status silent = BeginWith({""}, kShort);
  EXPECT_TRUE(absl::IsDeadlineExceeded(silent)) << silent;
  const absl::Status slow = BeginWith({ScriptedManager::kHello, "99    cmd=fullinit"}, kShort);
  EXPECT_TRUE(absl::IsDeadlineExceeded(slow)) << slow;
}

TEST(PmiClient, AClosedConnectionIsAnError) {
  const absl::Status closed = BeginWith({ScriptedManager::kHello});
  EXPECT_TRUE(absl::IsUnavailable(closed)) << closed;
  EXPECT_THAT(closed.message(), HasSubstr("closed instead of an answer to fullinit"));
  PmiClient nobody(UniqueFd(), "5.0", 1, MonotonicNow() + kLong);
  EXPECT_TRUE(absl::IsUnavailable(nobody.Begin()));
}

}  // namespace
}  // namespace mtrun::launcher
