#include "tensorboard/event.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tensorboard/record.h"
#include "tests/tensorboard/read_events.h"

namespace mtrun::tensorboard {
namespace {

SeenEvent Seen(double wall_time, int64_t step, const Content& content) {
  std::string bytes;
  AppendFrame(bytes, EncodeEvent(wall_time, step, content));
  const SeenFile file = ReadEventFile(bytes);
  EXPECT_EQ(file.events.size(), 1u);
  EXPECT_EQ(file.end, "");
  return file.events.at(0);
}

TEST(Event, CarriesTimeAndStep) {
  const SeenEvent event = Seen(1764000000.25, int64_t{1} << 40, FileVersion{});
  EXPECT_EQ(event.wall_time, 1764000000.25);
  EXPECT_EQ(event.step, int64_t{1} << 40);
  EXPECT_EQ(event.file_version, "brain.Event:2");
}

TEST(Event, ScalarsShareOneEvent) {
  const SeenEvent event =
      Seen(1, 7, std::vector<Scalar>{{"loss/train", 0.5}, {"lr", 1e-3}, {"odd", std::nan("")}});
  EXPECT_EQ(event.scalars.at("loss/train"), 0.5);
  EXPECT_EQ(event.scalars.at("lr"), static_cast<double>(1e-3f));
  EXPECT_TRUE(std::isnan(event.scalars.at("odd")));
}

TEST(Event, EncodesStartsPicturesAndTexts) {
  EXPECT_TRUE(Seen(1, 812, Start{}).start);
  const SeenEvent picture = Seen(1, 2, Picture{"confusion", 20, 30, "PNG"});
  EXPECT_EQ(picture.images.at("confusion").height, 20);
  EXPECT_EQ(picture.images.at("confusion").width, 30);
  EXPECT_EQ(picture.images.at("confusion").colorspace, 3);
  EXPECT_EQ(picture.images.at("confusion").bytes, "PNG");
  EXPECT_EQ(Seen(1, 0, Text{"settings", "lr: 1\n"}).texts.at("settings"), "lr: 1\n");
}

// Encoded from the same message by protoc --encode, so the field numbers are TensorBoard's.
TEST(Event, MatchesTheBytesOfProtobuf) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x05\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 26);
  EXPECT_EQ(EncodeEvent(1, 5, std::vector<Scalar>{{"loss", 0.5}}), expected);
}

}  // namespace
}  // namespace mtrun::tensorboard
