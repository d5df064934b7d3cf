// A reader of event files with its own implementation of protobuf's wire format and TensorBoard's field
// numbers, so that the writer's output is checked against an independent reading of the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun::tensorboard {

/// The frame at the start of `bytes`.
struct Frame {
  enum class State {
    kWhole,    // `record` is complete; the next frame starts `size` bytes later
    kCut,      // the file ends within the frame: its writer was killed, or is still writing
    kDamaged,  // a checksum is wrong or the length impossible: later frames cannot be found
  };
  State state = State::kCut;
  std::string_view record = {};  // within `bytes`
  size_t size = 0;
  bool operator==(const Frame&) const = default;
};
Frame ReadFrame(std::string_view bytes);

struct SeenEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool start = false;
  std::map<std::string, double> scalars;
  struct Image {
    int64_t height = 0, width = 0, colorspace = 0;
    std::string bytes;
  };
  std::map<std::string, Image> images;
  std::map<std::string, std::string> texts;
};

struct SeenFile {
  std::vector<SeenEvent> events;
  std::string end;  // "" if the file ends with a whole record, else "cut" or "damaged"
};
SeenFile ReadEventFile(std::string_view bytes);

/// Returns the event files of a folder in the order of their names.
std::vector<SeenFile> ReadEventFolder(const std::string& folder);

/// Returns a tag's points as TensorBoard finally shows them: a start event removes earlier points from its
/// step on.
std::vector<std::pair<int64_t, double>> CurveOf(const std::vector<SeenFile>& files, const std::string& tag);

/// Returns the steps at which TensorBoard finally shows a picture or a text of that tag.
std::vector<int64_t> StepsOf(const std::vector<SeenFile>& files, const std::string& tag);

}  // namespace mtrun::tensorboard
