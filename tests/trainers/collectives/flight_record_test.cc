#include "trainers/collectives/flight_record.h"

#include <chrono>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mtrun::collectives {
namespace {

using std::chrono::seconds;

std::vector<nlohmann::json> LinesOf(const FlightRecord& record, TimePoint now) {
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line : absl::StrSplit(record.Lines(now), '\n', absl::SkipEmpty()))
    lines.push_back(nlohmann::json::parse(std::string(line)));
  return lines;
}

TEST(FlightRecordTest, ListsFinishedAndUnfinishedWorkInOrderOfTime) {
  FlightRecord record;
  const TimePoint start{};
  const uint64_t first = record.Began("all-reduce", 1024, start + seconds(1));
  record.Ended(first, absl::OkStatus(), start + seconds(2));
  record.Add({.step = 7,
              .loss = 0.5,
              .seconds = 1,
              .compute = 0.5,
              .wait = 0.25,
              .data = 0.25,
              .ended = start + seconds(3)});
  record.Began("barrier", 0, start + seconds(4));
  const uint64_t failed = record.Began("broadcast", 8, start + seconds(5));
  record.Ended(failed, absl::UnavailableError("rank 2 died"), start + seconds(6));
  const auto lines = LinesOf(record, start + seconds(10));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], nlohmann::json::parse(
                          R"({"collective":1,"what":"all-reduce","bytes":1024,"began":-9.0,"ended":-8.0})"));
  EXPECT_EQ(lines[1]["step"], 7);
  EXPECT_EQ(lines[1]["ended"], -7.0);
  EXPECT_TRUE(lines[2]["ended"].is_null());
  EXPECT_EQ(lines[3]["error"], "rank 2 died");
}

TEST(FlightRecordTest, KeepsTheNewest) {
  FlightRecord record;
  const uint64_t old = record.Began("barrier", 0, TimePoint{});
  for (size_t i = 0; i < 2 * FlightRecord::kKept; ++i) {
    record.Ended(record.Began("all-reduce", 4, TimePoint{seconds(i)}), absl::OkStatus(),
                 TimePoint{seconds(i)});
    record.Add({.step = static_cast<int64_t>(i), .ended = TimePoint{seconds(i)}});
  }
  record.Ended(old, absl::OkStatus(), TimePoint{});  // dropped long ago
  const auto lines = LinesOf(record, TimePoint{});
  ASSERT_EQ(lines.size(), 2 * FlightRecord::kKept);
  EXPECT_EQ(lines.back()["step"], 2 * FlightRecord::kKept - 1);
}

}  // namespace
}  // namespace mtrun::collectives
