// Two of several services with a job each, and a node that each of them reaches for a time.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/actions.h"
#include "tests/rendezvous/cluster_simulation.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;

JobSettings OfTwoServices() {
  JobSettings settings = Settings(1, 6, 0);
  settings.endpoints = Services(2);
  return settings;
}

/// The node connects with what it holds, is notified that this is over, and offers again.
void Regroup(ClusterSimulation* world, const std::string& node, const Assignment& held) {
  world->Remember(node, held);
  world->Open(node, held.generation, 0, 0, held);
  world->OfferFrom(node);
}

/// R10. Both services follow generation 1 of node1 to node3 with a generation 2 that node2 is in. Node2 enters the
/// one of the second service, which runs and is followed without it. Then it returns to the first service.
TEST(JobMachine, GenerationThatAMemberRanElsewhereIsAccountedFor) {
  int lower = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ClusterSimulation first(OfTwoServices(), Duration::zero(), false, 2 * seed),
        second(OfTwoServices(), Duration::zero(), false, 2 * seed + 1);
    for (const char* node : {"node1", "node2", "node3"}) first.Open(node), first.OfferFrom(node);
    Look(OfTwoServices(), {Peer(PeerService::State::kSelf), Peer(PeerService::State::kGone)}).act(first);
    first.Advance(seconds(2));
    Look(OfTwoServices(), {Peer(PeerService::State::kSelf), Peer(PeerService::State::kGone)}).act(first);
    ASSERT_EQ(first.generation().number, 1u) << first.Text();
    const Assignment begun = first.assignments().at("node2");
    // The services are cut off from each other from here on.
    Look(OfTwoServices(), {Peer(PeerService::State::kSelf), Peer(PeerService::State::kSilent)}).act(first);
    first.Close("node3");
    first.Advance(seconds(1));
    for (const char* node : {"node4", "node5"}) first.Open(node), first.OfferFrom(node);
    for (const char* node : {"node1", "node2"}) first.OfferFrom(node);
    ASSERT_EQ(first.generation().number, 2u) << first.Text();
    const Generation ignored = first.generation();
    first.Close("node2");
    first.Advance(seconds(1));

    second.Open("node2", begun.generation, 0, 0, begun);
    second.Open("node6"), second.OfferFrom("node6");
    for (const char* node : {"node2", "node3"}) Regroup(&second, node, begun);
    second.Advance(seconds(1));
    ASSERT_EQ(second.generation().number, 2u) << second.Text();
    ASSERT_TRUE(second.assignments().contains("node2")) << second.Text();
    second.Say("node3", StepsCommitted{second.generation(), 100});
    const Assignment ran = second.assignments().at("node2");
    lower += ran.generation < ignored ? 1 : 0;
    second.Close("node2");
    second.Advance(seconds(1));
    for (const char* node : {"node3", "node6"}) second.OfferFrom(node);
    EXPECT_EQ(second.generation().number, 3u) << "two of three\n" << second.Text();

    Regroup(&first, "node2", ran);
    for (const char* node : {"node1", "node4", "node5"}) first.OfferFrom(node);
    first.Advance(seconds(1));
    EXPECT_EQ(first.generation().number, 2u) << "node3 and node6 continue without it\n" << first.Text();
  }
  EXPECT_GT(lower, 0);
  EXPECT_LT(lower, 8);
}

/// R3. A lease is for the last generation alone, while it runs, and only with authority.
TEST(JobMachine, LeaseIsGrantedOnlyForTheRunningGeneration) {
  ClusterSimulation world(Settings(1, 2, 0));
  const auto lease = [&](const std::string& node) {
    return world.machine().LeaseFor(node, seconds(7), world.now());
  };
  for (const char* node : {"node1", "node2", "spare"}) world.Open(node), world.OfferFrom(node);
  const Generation first = world.generation();
  ASSERT_EQ(first.number, 1u);
  EXPECT_EQ(lease("node1").generation, first);
  EXPECT_EQ(lease("node1").sent, seconds(7)) << "it counts from the node's heartbeat";
  EXPECT_EQ(lease("spare").generation, Generation{});
  world.Leave("node2");
  EXPECT_EQ(world.generation(), first);
  EXPECT_EQ(lease("node1").generation, Generation{}) << "it has ended, and another one may follow";

  ClusterSimulation one_of_two(OfTwoServices());
  const Assignment held = HeldBy({"node1", "node2", "node3"}).at("node1");
  one_of_two.Remember("node1", held);
  Return("node1", {{"node1", held}}).act(one_of_two);
  ASSERT_EQ(one_of_two.machine().RunBy("node1"), held.generation);
  EXPECT_EQ(one_of_two.machine().LeaseFor("node1", seconds(7), one_of_two.now()).generation, Generation{})
      << "it has no authority: the others may be elsewhere";
}

/// R9. A member that had finished, was lost and is back in a running generation comes before a spare: the next
/// generation would wait for it for ever if a spare took its place.
TEST(JobMachine, MemberThatIsBackComesBeforeASpare) {
  JobSettings settings = Settings(1, 2, 0);
  settings.endpoints = Services(2);
  ClusterSimulation world(settings);
  for (const char* node : {"node1", "node2"}) world.Open(node), world.OfferFrom(node);
  Look(settings, {Peer(PeerService::State::kSelf), Peer(PeerService::State::kGone)}).act(world);
  world.Advance(seconds(4));
  Look(settings, {Peer(PeerService::State::kSelf), Peer(PeerService::State::kGone)}).act(world);
  const Generation first = world.generation();
  ASSERT_EQ(first.number, 1u) << world.Text();
  world.Open("spare"), world.OfferFrom("spare");
  world.Say("node1", WorkersFinished{first});
  world.Close("node1");
  world.Advance(seconds(3));
  world.Open("node1"), world.OfferFrom("node1");
  world.OfferFrom("node2");
  world.Advance(seconds(3));
  Look(settings, {Peer(PeerService::State::kSelf), Peer(PeerService::State::kGone)}).act(world);
  EXPECT_EQ(world.generation().number, 2u) << world.Text();
  EXPECT_TRUE(world.assignments().contains("node1")) << world.Text();
}

/// A service wrote generation 1 down and died before any node learned of it; another one reused its number. What
/// a member of that one reports before it says that it runs it counts.
TEST(JobMachine, ReportBeforeTheAdoptionOfAReusedNumberCounts) {
  const auto held = HeldBy({"node1", "node2"});
  for (const uint64_t id : {held.at("node1").generation.id - 1, held.at("node1").generation.id + 1}) {
    ClusterSimulation world(OfTwoServices());
    Assignment written = held.at("node1");
    written.generation.id = id;
    world.Open("spare", Generation{}, 0, 0, written);
    ReportBefore("node1", held).act(world);
    Return("node1", held).act(world);
    EXPECT_THAT(world.Text(), testing::HasSubstr("finished {node1}")) << id;
  }
}

/// R1. Numbers grow beyond each one that the service has heard of.
TEST(JobMachine, NextGenerationIsNewerThanAllThatNodesHaveSeen) {
  ClusterSimulation world(Settings(2, 2, 0));
  world.Open("node1", Generation{7, 1});
  for (const char* node : {"node1", "node2"}) world.Open(node), world.OfferFrom(node);
  EXPECT_EQ(world.generation().number, 8u);
}

}  // namespace
}  // namespace mtrun::rendezvous
