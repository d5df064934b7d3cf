#include "rendezvous/client/job_finder.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Services a, b and c; those without a status do not answer.
class JobFinderTest : public ::testing::Test {
 protected:
  static ServiceStatus With(const std::string& phase, bool authority = true) {
    JobView job;
    job.phase = phase;
    job.authority = authority;
    ServiceStatus status;
    status.jobs.push_back(job);
    return status;
  }
  /// Returns the asked services in order, and the phase of the found job, "" for none, or the error.
  std::string Find() {
    asked_.clear();
    const auto found = finder_.Find();
    if (!found.ok()) return std::string(found.status().message());
    return found->jobs.empty() ? "" : found->jobs[0].phase;
  }

  std::map<std::string, ServiceStatus> services_;
  std::vector<std::string> asked_;
  JobFinder finder_{{"a", "b", "c"}, [this](const std::string& endpoint) -> absl::StatusOr<ServiceStatus> {
                      asked_.push_back(endpoint);
                      const auto service = services_.find(endpoint);
                      if (service == services_.end())
                        return absl::UnavailableError(absl::StrCat("nobody at ", endpoint));
                      return service->second;
                    }};
};

TEST_F(JobFinderTest, AsksInOrderAndStaysWithTheServiceOfTheJob) {
  services_ = {{"b", With("running")}, {"c", {}}};
  EXPECT_EQ(Find(), "running");
  EXPECT_THAT(asked_, ElementsAre("a", "b"));
  EXPECT_EQ(finder_.where(), "b");
  services_["a"] = {};
  EXPECT_EQ(Find(), "running");
  EXPECT_THAT(asked_, ElementsAre("b"));
  services_ = {{"a", {}}, {"c", With("running")}};
  EXPECT_EQ(Find(), "running") << "another one has taken it over";
  EXPECT_THAT(asked_, ElementsAre("b", "a", "c"));
  EXPECT_EQ(finder_.where(), "c");
}

TEST_F(JobFinderTest, ServiceWithAuthorityIsPreferred) {
  services_ = {{"a", With("forming", /*authority=*/false)}, {"b", With("ended")}, {"c", With("running")}};
  EXPECT_EQ(Find(), "running");
  services_.erase("c");
  EXPECT_EQ(Find(), "forming");
  services_.erase("a");
  EXPECT_EQ(Find(), "ended");
}

TEST_F(JobFinderTest, ServiceThatNeverHadTheJobDoesNotEndIt) {
  services_ = {{"a", With("running")}, {"b", {}}};
  EXPECT_EQ(Find(), "running");
  services_.erase("a");
  EXPECT_THAT(Find(), HasSubstr("the service at a had the job and does not answer, and b does not have it"));
  services_.erase("b");
  EXPECT_EQ(Find(), "nobody at a; nobody at b; nobody at c");
  services_["a"] = {};
  EXPECT_EQ(Find(), "") << "it had the job, and nobody is left of it";
}

/// The service of a job that has moved is not of the list, and may move on.
TEST_F(JobFinderTest, NamedServiceIsAskedAndKept) {
  services_ = {{"a", {}}, {"d:1", With("running")}, {"e:1", With("running")}};
  services_["a"].elsewhere = {{"job", "d:1"}};
  EXPECT_EQ(Find(), "running");
  EXPECT_THAT(asked_, ElementsAre("a", "d:1"));
  EXPECT_EQ(Find(), "running");
  EXPECT_THAT(asked_, ElementsAre("d:1"));
  EXPECT_THAT(finder_.InOrder(), ElementsAre("d:1", "a", "b", "c"));
  services_.erase("d:1");
  EXPECT_THAT(Find(), HasSubstr("the service at d:1 had the job and does not answer"));
  services_["a"].elsewhere = {{"job", "e:1"}};
  EXPECT_EQ(Find(), "running");
  EXPECT_EQ(finder_.where(), "e:1");
}

TEST_F(JobFinderTest, OtherJobsElsewhereAreShownButNotAskedFor) {
  services_ = {{"a", With("running")}, {"d:1", With("running")}};
  services_["a"].elsewhere = {{"other", "d:1"}};
  const auto found = finder_.Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(finder_.where(), "a");
  EXPECT_EQ(found->elsewhere, services_["a"].elsewhere);
  EXPECT_THAT(StatusTable(*found), HasSubstr("\njob other has moved to d:1\n"));
  EXPECT_THAT(StatusLine(*found), HasSubstr(R"("elsewhere":[{"endpoint":"d:1","job":"other"}])"));
}

TEST_F(JobFinderTest, AnyServiceIsAnAnswerBeforeTheJobExists) {
  EXPECT_EQ(Find(), "nobody at a; nobody at b; nobody at c");
  services_["c"] = {};
  EXPECT_EQ(Find(), "");
  EXPECT_EQ(finder_.where(), "");
}

TEST(AllErrors, EqualErrorsAreListedOnce) {
  const auto error = absl::FailedPreconditionError("there is no token");
  EXPECT_EQ(AllErrors({error, error, absl::UnavailableError("nobody at b")}),
            absl::FailedPreconditionError("there is no token; nobody at b"));
  EXPECT_EQ(AllErrors({}), absl::OkStatus());
}

}  // namespace
}  // namespace mtrun::rendezvous
