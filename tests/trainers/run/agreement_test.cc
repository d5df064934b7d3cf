#include "trainers/run/loop/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunRanks;

RunIdentity IdentityWith(const std::string& data, const std::string& amp = "off") {
  return {.run = {{"program", "cnnA"}, {"data", data}}, .generation = {{"amp", amp}}, .not_of_run = {}};
}

TEST(Agreement, SingleWorkerHasNothingToCompare) {
  EXPECT_TRUE(CheckAgreement(nullptr, IdentityWith("a")).ok());
}

TEST(Agreement, EqualIdentitiesPass) {
  RunRanks(3, [](int, const collectives::ProcessGroup& group) {
    EXPECT_TRUE(CheckAgreement(group, IdentityWith("a")).ok());
    EXPECT_TRUE(CheckAgreement(group, {}).ok());
  });
}

TEST(Agreement, AllMembersLearnTheDifferenceAndItsRanks) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    const absl::Status status =
        CheckAgreement(group, IdentityWith(rank == 1 ? "a b" : "xyz", "bf16")).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(status.message()),
              "the workers of this job differ in data: a b (rank 1), xyz (ranks 0, 2)");
    EXPECT_TRUE(CheckAgreement(group, IdentityWith("a")).ok()) << "the group works on";
  });
}

TEST(Agreement, SettingsOfAGenerationAreComparedToo) {
  RunRanks(2, [](int rank, const collectives::ProcessGroup& group) {
    const absl::Status status = CheckAgreement(group, IdentityWith("a", rank == 0 ? "off" : "bf16")).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("amp: bf16 (rank 1), off (rank 0)"));
  });
}

/// Versions may also differ in the names, and the number of names, that they compare.
TEST(Agreement, MixedVersionsAreRefusedNamingBothVersions) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    RunIdentity identity = IdentityWith("a");
    if (rank == 2) identity.run["new_option"] = std::string(3000, 'x');
    const absl::Status status = CheckAgreement(group, identity, rank == 2 ? "0.2.0" : "0.1.0").status();
    ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the version of mtrun: 0.1.0 (ranks 0, 1), 0.2.0 (rank 2)"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("new_option")));
  });
}

/// One worker's node has no GPU, unlike the others. A device that connected would wait forever.
TEST(Agreement, MembersWithAndWithoutADeviceAreDistinguished) {
  const auto network = testing::FakeNetwork::Make(3);
  const collectives::DeviceMaker gpu = [&](const collectives::GroupMember& member, const auto&) {
    ADD_FAILURE() << "rank " << member.rank << " connects its device";
    return network->DeviceOf(member.rank);
  };
  testing::RunMixedRanks({gpu, nullptr, gpu}, [](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    RunIdentity identity = IdentityWith("a");
    identity.generation["device"] = rank == 1 ? "cpu" : "cuda";
    EXPECT_EQ(std::string(CheckAgreement(*group, identity).status().message()),
              "the workers of this job differ in device: cpu (rank 1), cuda (ranks 0, 2)");
  });
}

TEST(Agreement, DevicesConnectIfAllMembersHaveOne) {
  const auto network = testing::FakeNetwork::Make(2);
  const collectives::DeviceMaker gpu = [&](const collectives::GroupMember& member, const auto&) {
    return network->DeviceOf(member.rank);
  };
  testing::RunMixedRanks({gpu, gpu}, [](int, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_NE(collectives::DeviceOf(*group), nullptr);
  });
}

/// Machines of other kinds compute the same steps; other settings are refused even so.
TEST(Agreement, KindsOfMachinesAreReturned) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    RunIdentity identity = IdentityWith("a");
    identity.machine = "A";
    EXPECT_EQ(*CheckAgreement(group, identity), MachinesOf({"A"}));
    if (rank == 1) identity.machine = "B";
    EXPECT_EQ(*CheckAgreement(group, identity), MachinesOf({"A", "B", "A"}));
    if (rank == 2) identity.run["data"] = "b";
    EXPECT_EQ(std::string(CheckAgreement(group, identity).status().message()),
              "the workers of this job differ in data: a (ranks 0, 1), b (rank 2)");
  });
  EXPECT_EQ(*CheckAgreement(nullptr, IdentityWith("a")), Machines());
}

TEST(Agreement, VersionIsCompared) { EXPECT_THAT(EncodeClaim({}, Version()), HasSubstr(Version())); }

}  // namespace
}  // namespace mtrun::trainers
