#include "rendezvous/outbox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Drain(Outbox& box) {
  std::vector<std::string> lines;
  while (const Outbox::Entry* entry = box.Next())
    lines.push_back(std::to_string(entry->sequence) + " " + Describe(entry->said.event));
  return lines;
}

Assigned AssignedTo(uint64_t number, int restarts = 0) {
  Assignment assignment;
  assignment.generation = Generation{number, number};
  assignment.restart_count = restarts;
  return Assigned{assignment};
}

TEST(Outbox, WritesEachEventOnceAndAgainAfterABreak) {
  Outbox box;
  box.Add(Leaving{"a", false, 0});
  box.Add(Leaving{"b", false, 0});
  EXPECT_THAT(Drain(box), ElementsAre("1 leaving: a", "2 leaving: b"));
  EXPECT_THAT(Drain(box), ElementsAre());
  box.Acknowledge(1);
  EXPECT_FALSE(box.AllAcknowledged());
  box.Resume();
  EXPECT_THAT(Drain(box), ElementsAre("2 leaving: b"));
  box.Acknowledge(2);
  EXPECT_TRUE(box.AllAcknowledged());
}

TEST(Outbox, ANewServiceHearsReportsOfTheRunningGenerationAgain) {
  Outbox box;
  box.Observe(AssignedTo(1));
  box.Add(StoreSet{Generation{1, 1}, "key", "v"});
  box.Add(StoreRead{Generation{1, 1}, 5, {"other"}, true});
  box.Add(StoreRead{Generation{1, 1}, 6, {"key"}, true});
  box.Add(WorkersFinished{Generation{1, 1}, false});
  Drain(box);
  box.Acknowledge(4);
  box.Observe(StoreReply{Generation{1, 1}, 6, {}, ""});
  EXPECT_TRUE(box.AllAcknowledged());
  box.BeginAnew();
  EXPECT_FALSE(box.AllAcknowledged());
  EXPECT_THAT(Drain(box),
              ElementsAre("1 store set key (1 bytes) in generation 1",
                          "2 store wait other (id 5) in generation 1", "3 workers finished in generation 1"));
}

TEST(Outbox, ReportsOfADissolvedGenerationAreForgotten) {
  Outbox box;
  box.Observe(AssignedTo(1));
  box.Add(StoreSet{Generation{1, 1}, "key", "v"});
  Drain(box);
  box.Acknowledge(1);
  box.Observe(GenerationDissolved{Generation{1, 1}, "lost", 3});
  box.BeginAnew();
  EXPECT_THAT(Drain(box), ElementsAre());
  EXPECT_EQ(box.seen(), (Generation{1, 1}));
  EXPECT_EQ(box.seen_restarts(), 3);
}

TEST(Outbox, AnAnsweredOfferIsNotSentToANewService) {
  Outbox box;
  box.Add(OfferSent{});
  Drain(box);
  box.Observe(AssignedTo(1));
  box.BeginAnew();
  EXPECT_THAT(Drain(box), ElementsAre());
}

TEST(Outbox, AnOfferThatHoldsAGenerationCarriesItsMembership) {
  Outbox box;
  box.Observe(AssignedTo(4, 2));
  OfferSent offer;
  offer.offer.holds = Generation{4, 4};
  box.Add(offer);
  const Outbox::Entry* entry = box.Next();
  ASSERT_NE(entry, nullptr);
  ASSERT_TRUE(entry->said.held.has_value());
  EXPECT_EQ(entry->said.held->restart_count, 2);
  EXPECT_EQ(entry->said.seen, (Generation{4, 4}));
}

}  // namespace
}  // namespace mtrun::rendezvous
