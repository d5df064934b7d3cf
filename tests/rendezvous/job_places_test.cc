#include "rendezvous/job/job_places.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TimePoint PlacesAt(double second) { return TimePoint(FromSeconds(second)); }

TEST(JobPlacesTest, ServiceCountsWhileItNamesItself) {
  JobPlaces places;
  places.OnNamed("train", "b:1", /*authority=*/true, PlacesAt(0));
  EXPECT_THAT(places.All(PlacesAt(9.9)), ElementsAre(Pair("train", "b:1")));
  EXPECT_THAT(places.All(PlacesAt(10)), IsEmpty());
  places.OnNamed("train", "b:1", /*authority=*/true, PlacesAt(10));
  EXPECT_EQ(places.Of("train", PlacesAt(19)), "b:1");
  EXPECT_EQ(places.Of("train", PlacesAt(21)), "");
}

TEST(JobPlacesTest, NextServiceOfTheJobReplacesTheLast) {
  JobPlaces places;
  places.OnNamed("train", "b:1", /*authority=*/true, PlacesAt(0));
  places.OnNamed("train", "c:1", /*authority=*/true, PlacesAt(1));
  EXPECT_EQ(places.Of("train", PlacesAt(1)), "c:1");
  places.OnNamed("train", "b:1", /*authority=*/false, PlacesAt(2));
  EXPECT_EQ(places.Of("train", PlacesAt(2)), "c:1") << "b may change nothing";
  places.OnNamed("train", "b:1", /*authority=*/false, PlacesAt(12));
  EXPECT_EQ(places.Of("train", PlacesAt(12)), "b:1") << "c has fallen silent";
}

TEST(JobPlacesTest, OnlyJobNeedsNoName) {
  JobPlaces places;
  const absl::Status missing = absl::NotFoundError("the service has no job");
  EXPECT_EQ(places.Of("", PlacesAt(0)), "");
  EXPECT_EQ(places.Explain(missing, "", PlacesAt(0)), "the service has no job");
  places.OnNamed("a", "b:1", /*authority=*/true, PlacesAt(0));
  EXPECT_EQ(places.Of("", PlacesAt(0)), "b:1");
  EXPECT_EQ(places.Of("other", PlacesAt(0)), "");
  places.OnNamed("b", "c:1", /*authority=*/true, PlacesAt(0));
  EXPECT_EQ(places.Of("", PlacesAt(0)), "") << "which one?";
  EXPECT_EQ(places.Explain(missing, "", PlacesAt(0)),
            "the service has no job; job \"a\" is at b:1, job \"b\" is at c:1");
  EXPECT_EQ(places.Explain(missing, "b", PlacesAt(0)), "the service has no job; job \"b\" is at c:1");
}

TEST(JobPlacesTest, CallersCannotFillTheMemory) {
  JobPlaces places;
  for (size_t i = 0; i <= JobPlaces::kMaxPlaces; ++i)
    places.OnNamed(absl::StrCat(i), "b:1", /*authority=*/true, PlacesAt(0));
  EXPECT_EQ(places.All(PlacesAt(0)).size(), JobPlaces::kMaxPlaces);
  places.OnNamed("late", "b:1", /*authority=*/true, PlacesAt(10));
  EXPECT_EQ(places.All(PlacesAt(10)).size(), 1u);
}

}  // namespace
}  // namespace mtrun::rendezvous
