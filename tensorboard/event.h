// Events as TensorBoard reads them: the messages Event, SessionLog and Summary of tensorboard.proto, encoded
// with their own field numbers. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mtrun::tensorboard {

struct Scalar {
  std::string_view tag;  // "loss/train": what stands before the slash groups
  double value = 0;      // kept as float32
};
struct Picture {
  std::string_view tag;
  int height = 0, width = 0;
  std::string_view png;  // a whole RGB file
};
/// Markdown.
struct Text {
  std::string_view tag, text;
};
/// The first event of a file.
struct FileVersion {};
/// The run goes on from the event's step: what stands in earlier files from there on is taken back
/// (SessionLog START; TensorBoard wants one in the first file as well).
struct Start {};

using Content = std::variant<FileVersion, Start, std::vector<Scalar>, Picture, Text>;

/// `wall_time`: seconds since 1970.
std::string EncodeEvent(double wall_time, int64_t step, const Content& content);

}  // namespace mtrun::tensorboard
