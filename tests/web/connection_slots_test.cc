#include "web/connection_slots.h"

#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

using Admission = ConnectionSlots::Admission;

constexpr Admission kRoom = {true, std::nullopt};
constexpr Admission kRefused = {false, std::nullopt};
Admission InsteadOf(int64_t id) { return {true, id}; }

TEST(ConnectionSlotsTest, NothingIsEvictedWhileASlotIsFree) {
  ConnectionSlots slots(2);
  EXPECT_EQ(slots.Admit(1, "a"), kRoom);
  EXPECT_EQ(slots.Admit(2, "a"), kRoom);
  slots.Remove(1);
  EXPECT_EQ(slots.Admit(3, "a"), kRoom);
}

TEST(ConnectionSlotsTest, OldestConnectionWithoutARequestIsEvicted) {
  ConnectionSlots slots(3);
  for (int64_t id = 1; id <= 3; ++id) slots.Admit(id, "a");
  slots.Change(1, Waits::kHandler);
  EXPECT_EQ(slots.Admit(4, "a"), InsteadOf(2));
  EXPECT_EQ(slots.Admit(5, "a"), InsteadOf(3));
  EXPECT_EQ(slots.Admit(6, "a"), InsteadOf(4));
}

TEST(ConnectionSlotsTest, ConnectionsFromOneAddressCompeteAmongThemselves) {
  ConnectionSlots slots(4);
  slots.Admit(1, "probe");
  for (int64_t id = 2; id <= 4; ++id) slots.Admit(id, "crowd");
  for (int64_t id = 5; id <= 20; ++id) EXPECT_EQ(slots.Admit(id, "crowd"), InsteadOf(id - 3));
  EXPECT_EQ(slots.Admit(21, "probe"), InsteadOf(18));
}

TEST(ConnectionSlotsTest, OldestIsEvictedIfAddressesHaveEqualCounts) {
  ConnectionSlots slots(4);
  slots.Admit(1, "a");
  slots.Admit(2, "b");
  slots.Admit(3, "a");
  slots.Admit(4, "b");
  EXPECT_EQ(slots.Admit(5, "c"), InsteadOf(1));
  EXPECT_EQ(slots.Admit(6, "c"), InsteadOf(2));
}

TEST(ConnectionSlotsTest, ServedConnectionsDoNotCountForTheirAddress) {
  ConnectionSlots slots(4);
  for (int64_t id = 1; id <= 2; ++id) slots.Admit(id, "busy");
  for (int64_t id = 1; id <= 2; ++id) slots.Change(id, Waits::kHandler);
  slots.Admit(3, "idle");
  slots.Admit(4, "busy");
  EXPECT_EQ(slots.Admit(5, "new"), InsteadOf(3));
}

TEST(ConnectionSlotsTest, SlowReaderIsEvictedIfAllHaveRequests) {
  ConnectionSlots slots(3);
  for (int64_t id = 1; id <= 3; ++id) slots.Admit(id, "a");
  slots.Change(1, Waits::kHandler);
  slots.Change(2, Waits::kReader);
  slots.Change(3, Waits::kReader);
  EXPECT_EQ(slots.Admit(4, "a"), InsteadOf(2));
  EXPECT_EQ(slots.Admit(5, "a"), InsteadOf(4));  // without a request
}

/// Also if the address has most connections, and if the others have waited less long.
TEST(ConnectionSlotsTest, AuthenticatedConnectionsAreEvictedAfterAllOthers) {
  ConnectionSlots slots(4);
  for (int64_t id = 1; id <= 2; ++id) slots.Admit(id, "operator");
  for (int64_t id = 1; id <= 2; ++id) slots.SetAuthenticated(id);
  slots.Change(2, Waits::kReader);
  slots.Admit(3, "crowd");
  slots.Admit(4, "operator");
  slots.Change(3, Waits::kReader);
  EXPECT_EQ(slots.Admit(5, "crowd"), InsteadOf(4));
  slots.Change(5, Waits::kReader);
  EXPECT_EQ(slots.Admit(6, "crowd"), InsteadOf(3));
  slots.Change(6, Waits::kHandler);
  slots.Change(5, Waits::kHandler);
  EXPECT_EQ(slots.Admit(7, "operator"), InsteadOf(1));
  slots.Change(7, Waits::kHandler);
  EXPECT_EQ(slots.Admit(8, "operator"), InsteadOf(2));
}

TEST(ConnectionSlotsTest, NewConnectionIsRefusedWhileAllAreServed) {
  ConnectionSlots slots(2);
  for (int64_t id = 1; id <= 2; ++id) slots.Admit(id, "a");
  for (int64_t id = 1; id <= 2; ++id) slots.Change(id, Waits::kHandler);
  const ConnectionSlots before = slots;
  EXPECT_EQ(slots.Admit(3, "b"), kRefused);
  slots.Change(3, Waits::kReader);
  slots.SetAuthenticated(3);
  slots.Remove(3);
  EXPECT_EQ(slots, before);
}

}  // namespace
}  // namespace mtrun::web
