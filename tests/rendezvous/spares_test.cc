#include "rendezvous/authority/spares.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Offer SpareOffer(const std::string& node, int port = 30001) {
  Offer offer;
  offer.node_id = offer.host = offer.address = node;
  offer.service_port = port;
  return offer;
}

TEST(SparesTest, AreTheNodesWithServicesOutsideOfTheGeneration) {
  GenerationRecord record;
  record.Begin(MakeAssignment({1, 2}, {SpareOffer("a")}, 0, 0));
  Spares spares;
  spares.OnOffer(SpareOffer("a"), record);
  spares.OnOffer(SpareOffer("b", 0), record);
  EXPECT_THAT(spares.services(), IsEmpty());
  EXPECT_EQ(spares.digest(), 0u);
  spares.OnOffer(SpareOffer("c"), record);
  EXPECT_THAT(spares.services(), ElementsAre(Pair("c", "c:30001")));
  EXPECT_EQ(spares.digest(), DigestOf(spares.services()));
  spares.OnOffer(SpareOffer("c", 30002), record);
  EXPECT_THAT(spares.services(), ElementsAre(Pair("c", "c:30002")));
  EXPECT_EQ(spares.digest(), DigestOf(spares.services()));
  spares.OnGone("c");
  EXPECT_EQ(spares, Spares());
}

TEST(SparesTest, BelongToOneGeneration) {
  GenerationRecord record;
  record.Begin(MakeAssignment({1, 2}, {SpareOffer("a")}, 0, 0));
  Roster roster{JobSettings()};
  for (const char* node : {"a", "b"}) {
    roster.Open(node, TimePoint());
    roster.TakeOffer(node, SpareOffer(node));
  }
  Spares spares;
  spares.OnGeneration(roster, record);
  EXPECT_THAT(spares.services(), ElementsAre(Pair("b", "b:30001")));
  spares.OnRemembered({{"c", "c:30001"}});
  spares.OnGeneration(roster, record);
  EXPECT_THAT(spares.services(), ElementsAre(Pair("b", "b:30001"), Pair("c", "c:30001"))) << "the same one";
  record.Begin(MakeAssignment({2, 3}, {SpareOffer("b")}, 0, 0));
  spares.OnGeneration(roster, record);
  EXPECT_THAT(spares.services(), ElementsAre(Pair("a", "a:30001")));
}

}  // namespace
}  // namespace mtrun::rendezvous
