#include "rendezvous/session/outbox.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Drain(Outbox& box) {
  std::vector<std::string> lines;
  while (const auto next = box.Next())
    lines.push_back(std::to_string(next->sequence) + " " + Describe(next->message->event));
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
  box.Add(Leaving{"a"});
  box.Add(Leaving{"b"});
  EXPECT_THAT(Drain(box), ElementsAre("1 leaving: a", "2 leaving: b"));
  EXPECT_THAT(Drain(box), ElementsAre());
  box.Acknowledge(1);
  EXPECT_FALSE(box.AllAcknowledged());
  box.Resume();
  EXPECT_THAT(Drain(box), ElementsAre("2 leaving: b"));
  box.Acknowledge(2);
  EXPECT_TRUE(box.AllAcknowledged());
}

TEST(Outbox, ReportsOfTheRunningGenerationAreResentToANewService) {
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
  box.StartOver();
  EXPECT_FALSE(box.AllAcknowledged());
  EXPECT_THAT(Drain(box),
              ElementsAre("1 store set key (1 bytes) in generation 1",
                          "2 store wait other (id 5) in generation 1", "3 workers finished in generation 1"));
}

TEST(Outbox, NewestValueOfAKeyIsSentToANewService) {
  Outbox box;
  box.Observe(AssignedTo(1));
  box.Add(StoreRead{Generation{1, 1}, 5, {"other"}, true});
  for (int i = 1; i <= 10'000; ++i) {
    box.Add(StoreSet{Generation{1, 1}, "key", std::to_string(i)});
    box.Next();
    box.Acknowledge(static_cast<uint64_t>(i));
  }
  box.Add(StoreSet{Generation{1, 1}, "another", "v"});
  Drain(box);
  box.Acknowledge(10'002);
  EXPECT_THAT(box.Describe(), ::testing::HasSubstr("; 3 reports for a new service;"));
  box.StartOver();
  std::vector<AgentEvent> again;
  while (const auto next = box.Next()) again.push_back(next->message->event);
  EXPECT_THAT(again, ElementsAre(AgentEvent(StoreSet{Generation{1, 1}, "another", "v"}),
                                 AgentEvent(StoreSet{Generation{1, 1}, "key", "10000"}),
                                 AgentEvent(StoreRead{Generation{1, 1}, 5, {"other"}, true})));
  box.Acknowledge(3);
  box.Observe(AssignedTo(2));
  EXPECT_THAT(box.Describe(), ::testing::HasSubstr("; 0 reports for a new service;"));
}

TEST(Outbox, ReportsOfAnEndedGenerationAreForgotten) {
  Outbox box;
  box.Observe(AssignedTo(1));
  box.Add(StoreSet{Generation{1, 1}, "key", "v"});
  Drain(box);
  box.Acknowledge(1);
  box.Observe(GenerationDissolved{Generation{1, 1}, {}, 3});
  box.StartOver();
  EXPECT_THAT(Drain(box), ElementsAre());
  EXPECT_EQ(box.seen(), (Generation{1, 1}));
  EXPECT_EQ(box.seen_restarts(), 3);
}

/// The acknowledgement of a report may arrive after the end of its generation.
TEST(Outbox, ReportAcknowledgedAfterItsGenerationIsForgotten) {
  for (const ServiceEvent& end :
       {ServiceEvent(AssignedTo(2)), ServiceEvent(GenerationDissolved{Generation{1, 1}, {}, 0})}) {
    Outbox box;
    box.Observe(AssignedTo(1));
    box.Add(StoreSet{Generation{1, 1}, "key", "v"});
    box.Add(WorkersFinished{Generation{1, 1}, false});
    Drain(box);
    box.Observe(end);
    box.Acknowledge(2);
    EXPECT_THAT(box.Describe(), ::testing::HasSubstr("; 0 reports for a new service;"));
    box.StartOver();
    EXPECT_THAT(Drain(box), ElementsAre());
  }
}

TEST(Outbox, EndOfAnotherGenerationEndsNothing) {
  Outbox box;
  box.Observe(AssignedTo(2));
  box.Add(WorkersFinished{Generation{2, 2}, false});
  Drain(box);
  box.Acknowledge(1);
  box.Observe(GenerationDissolved{Generation{1, 1}, {}, 0});
  box.Observe(GenerationDissolved{Generation{2, 7}, {}, 0});  // its number was used twice
  EXPECT_EQ(box.current(), (Generation{2, 2}));
  box.StartOver();
  EXPECT_THAT(Drain(box), ElementsAre("1 workers finished in generation 2"));
}

/// After the end of a generation, the outbox is as if nothing had been reported or answered in it.
TEST(Outbox, EndedGenerationLeavesOnlyItsNumberAndTheBudget) {
  const Generation generation{1, 1};
  const std::vector<AgentEvent> reports = {
      StoreSet{generation, "key", "v"},        StoreSet{generation, "other", "v"},
      StoreRead{generation, 1, {"a"}, true},   StoreRead{generation, 2, {"b"}, true},
      WorkersFinished{generation, false},      WorkerFailed{generation, {}},
      CollectivesBroken{generation, 0, "why"}, StepsCommitted{generation, 7}};
  const std::vector<ServiceEvent> ends = {GenerationDissolved{generation, {}, 3}, AssignedTo(2, 3)};
  const auto settle = [](Outbox& box) {
    uint64_t last = 0;
    while (const auto next = box.Next()) last = next->sequence;
    box.Acknowledge(last);
  };
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    Outbox quiet;
    quiet.Observe(AssignedTo(1, 2));
    Outbox box = quiet;
    for (int i = 0; i < 20; ++i) {
      if (const size_t report = random() % 10; report < reports.size()) {
        box.Add(reports[report]);
      } else if (report == 8) {
        box.Observe(StoreReply{generation, 1, {}, ""});
      } else {
        settle(box);
      }
    }
    for (Outbox* each : {&box, &quiet}) {
      if (seed % 3 < ends.size()) {
        each->Observe(ends[seed % 3]);
      } else {
        each->Add(OfferSent{{}, generation});
      }
      settle(*each);
      each->StartOver();
    }
    EXPECT_EQ(box, quiet) << "seed " << seed << ": " << box.Describe();
  }
}

TEST(Outbox, AnsweredOfferIsNotSentToANewService) {
  Outbox box;
  box.Add(OfferSent{});
  Drain(box);
  box.Observe(AssignedTo(1));
  box.StartOver();
  EXPECT_THAT(Drain(box), ElementsAre());
}

TEST(Outbox, CurrentGenerationLastsUntilItsEndOrANewOffer) {
  Outbox box;
  EXPECT_EQ(box.current(), Generation{});
  box.Observe(AssignedTo(1));
  EXPECT_EQ(box.current(), (Generation{1, 1}));
  OfferSent holds;
  holds.offer.holds = Generation{1, 1};
  box.Add(holds);
  EXPECT_EQ(box.current(), (Generation{1, 1}));
  box.Add(OfferSent{{}, Generation{1, 1}});
  EXPECT_EQ(box.current(), Generation{});
  box.Observe(AssignedTo(2));
  box.Observe(GenerationDissolved{Generation{2, 2}, {}, 0});
  EXPECT_EQ(box.current(), Generation{});
}

/// The agent makes its offers in another thread than the one that takes assignments.
TEST(Outbox, OfferMadeBeforeTheAssignmentArrivedLeavesNoGeneration) {
  Outbox box;
  box.Observe(AssignedTo(1));
  box.Observe(AssignedTo(2));
  box.Add(OfferSent{{}, Generation{1, 1}});
  EXPECT_EQ(box.current(), (Generation{2, 2}));
  const auto next = box.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(std::get<OfferSent>(next->message->event).seen, (Generation{1, 1}))
      << "the service must not take it as the end of generation 2";
}

/// A service to which a node returns sends again what it never saw acknowledged.
TEST(Outbox, AssignmentToAnEarlierGenerationIsNotHandled) {
  Outbox box;
  EXPECT_TRUE(box.Observe(AssignedTo(1)));
  EXPECT_TRUE(box.Observe(AssignedTo(2)));
  const Outbox before = box;
  EXPECT_FALSE(box.Observe(AssignedTo(1)));
  EXPECT_EQ(box, before) << "the node stays in generation 2, with its reports and its lease";
  box.Add(OfferSent{});  // leaves generation 2
  EXPECT_FALSE(box.Observe(AssignedTo(1)));
  EXPECT_TRUE(box.Observe(AssignedTo(2))) << "the same one again is the session's to tell apart";
  EXPECT_TRUE(box.Observe(AssignedTo(3)));
}

TEST(Outbox, NewestKnownGenerationIsSentToANewService) {
  Outbox box;
  const JobSettings settings;
  EXPECT_EQ(box.Opening(settings).last, std::nullopt);
  box.Observe(Membership{AssignedTo(3)});
  EXPECT_EQ(box.Opening(settings).last, AssignedTo(3).assignment());
  EXPECT_EQ(box.Opening(settings).seen, Generation{}) << "it was in none";
  box.Observe(AssignedTo(4));
  EXPECT_EQ(box.Opening(settings).last, std::nullopt) << "an offer says what it runs";
  box.Observe(GenerationDissolved{Generation{4, 4}, {}, 0});
  box.Observe(Membership{AssignedTo(2)});
  EXPECT_EQ(box.Opening(settings).last, AssignedTo(4).assignment()) << "news of the past";
}

TEST(Outbox, OfferThatHoldsAGenerationCarriesItsMembership) {
  Outbox box;
  box.Observe(AssignedTo(4, 2));
  OfferSent offer;
  offer.offer.holds = offer.seen = Generation{4, 4};
  box.Add(offer);
  const auto next = box.Next();
  ASSERT_TRUE(next.has_value());
  ASSERT_TRUE(next->message->held.has_value());
  EXPECT_EQ(next->message->held->restart_count, 2);
  EXPECT_EQ(std::get<OfferSent>(next->message->event).seen, (Generation{4, 4}));
}

TEST(Outbox, SettledGenerationHasNoEarlierOnes) {
  Assignment assignment = AssignedTo(4).assignment();
  assignment.earlier = {{Generation{3, 3}, {}, {}, {}}};
  Outbox box;
  box.Observe(Assigned(assignment));
  OfferSent offer;
  offer.offer.holds = assignment.generation;
  const auto earlier = [&] {
    box.Add(offer);
    return box.Next()->message->held->earlier.size();
  };
  EXPECT_EQ(earlier(), 1u);
  box.OnSettled({});
  box.OnSettled({3, 3});
  EXPECT_EQ(earlier(), 1u) << "another one";
  box.OnSettled({4, 4});
  EXPECT_EQ(earlier(), 0u);
  box.Observe(GenerationDissolved{{4, 4}, {}, 0});
  EXPECT_TRUE(box.Opening(JobSettings()).last->earlier.empty());
}

TEST(Outbox, IsAValueThatDescribesItself) {
  Outbox box;
  box.Observe(AssignedTo(3, 2));
  box.Add(WorkersFinished{Generation{3, 3}, false});
  box.Add(Leaving{"why"});
  Outbox copy = box;
  EXPECT_EQ(copy, box);
  copy.Next();
  copy.Acknowledge(1);
  EXPECT_FALSE(copy == box);
  EXPECT_EQ(copy.Describe(),
            "1 acknowledged, 1 kept, 0 of them written; 1 reports for a new service; seen generation 3, 2 "
            "restarts, 0 "
            "given back");
}

}  // namespace
}  // namespace mtrun::rendezvous
