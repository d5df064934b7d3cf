#include "rendezvous/service/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/service/service.h"
#include "tests/support/program.h"
#include "tests/support/token.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kHostPatience{30};

HostOptions At(const std::string& endpoint) {
  HostOptions options;
  options.endpoint = endpoint;
  options.insecure = true;
  return options;
}

TEST(StartIfHost, TakesAFreePortForAStandaloneRun) {
  const auto host = StartIfHost(At("localhost:0"));
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_NE(*host, nullptr);
  EXPECT_THAT((*host)->endpoint(), ::testing::Not(HasSubstr(":0")));
  EXPECT_THAT((*host)->reason(), HasSubstr("is an address of this node"));
  EXPECT_TRUE(ReadStatus((*host)->endpoint(), true, "", kHostPatience).ok());
}

TEST(StartIfHost, HostsWithAToken) {
  HostOptions options = At("127.0.0.1:0");
  options.insecure = false;
  options.token = support::kToken;
  const auto host = StartIfHost(options);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_NE(*host, nullptr);
  EXPECT_TRUE(ReadStatus((*host)->endpoint(), false, options.token, kHostPatience).ok());
}

TEST(StartIfHost, HostAtAFreePortKeepsNothingForASuccessor) {
  const support::TemporaryFolder folder;
  HostOptions options = At("127.0.0.1:0");
  options.state_folder = folder.File("state");
  Offer offer;
  offer.node_id = offer.host = offer.address = "node1";
  auto host = StartIfHost(options);
  ASSERT_TRUE(host.ok() && *host != nullptr) << host.status();
  (*host)->AdoptMembership("job", MakeAssignment({6, 66}, {offer}, 0, 0));
  host->reset();
  EXPECT_FALSE(std::filesystem::exists(options.state_folder));
}

TEST(StartIfHost, OneOfSeveralAgentsHosts) {
  const auto first = StartIfHost(At("127.0.0.1:0"));
  ASSERT_TRUE(first.ok() && *first != nullptr);
  const auto second = StartIfHost(At((*first)->endpoint()));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, nullptr);
}

TEST(StartIfHost, DoesNotHostForAnotherMachine) {
  // 192.0.2.1 (RFC 5737) belongs to no host; the port can be bound here, but the endpoint does not lead to
  // it.
  const auto free_port = StartIfHost(At("127.0.0.1:0"));
  ASSERT_TRUE(free_port.ok() && *free_port != nullptr);
  const std::string port = (*free_port)->endpoint().substr((*free_port)->endpoint().rfind(':'));
  const auto elsewhere = StartIfHost(At("192.0.2.1" + port));
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_EQ(*elsewhere, nullptr);
}

/// Returns an address of this machine that is not loopback, "" for none.
std::string OwnAddress() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string address;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof(text));
    address = text;
  }
  freeifaddrs(list);
  return address;
}

TEST(StartIfHost, RecognisesItselfAtAnAddressOfThisMachine) {
  const std::string address = OwnAddress();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  for (int attempt = 0; attempt < 20; ++attempt) {  // another process may take the port in between
    const std::string free_port = StartIfHost(At("127.0.0.1:0")).value()->endpoint().substr(9);
    const auto host = StartIfHost(At(address + free_port));
    ASSERT_TRUE(host.ok()) << host.status();
    if (*host == nullptr) continue;
    EXPECT_THAT((*host)->reason(), HasSubstr(address));
    return;
  }
  FAIL() << "never hosted at " << address;
}

TEST(StartIfHost, LoopbackEndpointIsServedOnAllAddressesOnlyIfWanted) {
  const std::string address = OwnAddress();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  for (const bool wanted : {false, true}) {
    HostOptions options = At("127.0.0.1:0");
    options.all_addresses = wanted;
    const auto host = StartIfHost(options);
    ASSERT_TRUE(host.ok() && *host != nullptr) << host.status();
    const std::string port = (*host)->endpoint().substr(9);
    EXPECT_TRUE(ReadServiceId("127.0.0.1" + port, true, "", kHostPatience).ok());
    EXPECT_EQ(ReadServiceId(address + port, true, "", std::chrono::milliseconds(500)).ok(), wanted);
  }
}

TEST(StartIfHost, LoopbackIsServedIfAnotherProgramHasThePortElsewhere) {
  const std::string address = OwnAddress();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  ServiceOptions other;
  other.listen = address + ":0";
  other.insecure = true;
  for (int i = 0; i < 20; ++i) {  // a third program may have that port on loopback
    const auto service = Service::Start(other);
    ASSERT_TRUE(service.ok()) << service.status();
    HostOptions options = At(absl::StrCat("127.0.0.1:", (*service)->port()));
    options.all_addresses = true;
    const auto host = StartIfHost(options);
    ASSERT_TRUE(host.ok()) << host.status();
    if (*host == nullptr) continue;
    EXPECT_TRUE(ReadStatus((*host)->endpoint(), true, "", kHostPatience).ok());
    return;
  }
  FAIL() << "never hosted on loopback";
}

TEST(StartIfHost, CanBeForbiddenAndForced) {
  HostOptions options = At("127.0.0.1:0");
  options.is_host = false;
  EXPECT_EQ(StartIfHost(options).value(), nullptr);
  options.is_host = true;
  const auto forced = StartIfHost(options);
  ASSERT_TRUE(forced.ok() && *forced != nullptr);
  options.endpoint = (*forced)->endpoint();
  const auto taken = StartIfHost(options);
  EXPECT_TRUE(absl::IsAlreadyExists(taken.status()));
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("is in use"));
}

TEST(StartIfHost, LocalhostIsLoopbackInAnyCase) {
  HostOptions options = At("LOCALHOST:0");
  const auto host = StartIfHost(options);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_NE(*host, nullptr);
  EXPECT_TRUE(ReadStatus((*host)->endpoint(), true, "", kHostPatience).ok());
}

TEST(StartIfHost, RefusesAMalformedEndpoint) {
  EXPECT_TRUE(absl::IsInvalidArgument(StartIfHost(At("no where:29400")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StartIfHost(At("127.0.0.1:1,node2:1")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StartIfHost(At("node7:0")).status()));
}

}  // namespace
}  // namespace mtrun::rendezvous
