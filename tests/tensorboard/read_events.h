// A reader of event files that knows protobuf's wire format and TensorBoard's field numbers by itself, so
// that what the writer writes is checked against a second reading of the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun::tensorboard {

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
  std::string end;  // "" where the file ends with a whole record, else "cut" or "damaged"
};
SeenFile ReadEventFile(std::string_view bytes);

/// The event files of a folder in the order of their names.
std::vector<SeenFile> ReadEventFolder(const std::string& folder);

/// A tag's points as TensorBoard comes to show them: a start takes back what stands before it from its step
/// on.
std::vector<std::pair<int64_t, double>> CurveOf(const std::vector<SeenFile>& files, const std::string& tag);

/// The steps at which TensorBoard comes to show a picture or a text of that tag.
std::vector<int64_t> StepsOf(const std::vector<SeenFile>& files, const std::string& tag);

}  // namespace mtrun::tensorboard
