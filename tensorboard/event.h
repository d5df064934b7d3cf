// TensorBoard's events: the messages Event, SessionLog and Summary of tensorboard.proto, encoded with their
// own field numbers. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mtrun::tensorboard {

struct Scalar {
  std::string_view tag;  // "loss/train": the part before the slash is the group
  double value = 0;      // kept as float32
};
struct Picture {
  std::string_view tag;
  int height = 0, width = 0;
  std::string_view png;  // a complete RGB file
};
/// A text in Markdown.
struct Text {
  std::string_view tag, text;
};
/// The first event of a file.
struct FileVersion {};
/// The run continues from the event's step; later events of earlier files are discarded (SessionLog START,
/// which TensorBoard expects in the first file too).
struct Start {};

using Content = std::variant<FileVersion, Start, std::vector<Scalar>, Picture, Text>;

/// Encodes an event; `wall_time` is in seconds since 1970.
std::string EncodeEvent(double wall_time, int64_t step, const Content& content);

}  // namespace mtrun::tensorboard
