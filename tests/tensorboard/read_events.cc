#include "tests/tensorboard/read_events.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/posix.h"
#include "base/status_macros.h"
#include "tensorboard/crc32c.h"

namespace mtrun::tensorboard {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t), kSumBytes = sizeof(uint32_t);
constexpr size_t kHeadBytes = kLengthBytes + kSumBytes;
constexpr uint64_t kMaxRecordBytes = 64 << 20;  // the writer's pictures are far smaller

template <typename Number>
Number NumberAt(std::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

struct Field {
  int number = 0, type = 0;
  uint64_t integer = 0;    // of types 0, 1 and 5
  std::string_view bytes;  // of type 2
  double Double() const {
    double value;
    std::memcpy(&value, &integer, sizeof(value));
    return value;
  }
  double Float() const {
    float value;
    std::memcpy(&value, &integer, sizeof(value));
    return value;
  }
};

uint64_t Take(std::string_view& bytes, size_t count) {
  MT_CHECK(bytes.size() >= count) << "a message ends within a field";
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), count);
  bytes.remove_prefix(count);
  return value;
}

uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint64_t byte = Take(bytes, 1);
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  MT_CHECK(false) << "a number without end";
  return 0;
}

void EachField(std::string_view message, const std::function<void(const Field&)>& visit) {
  while (!message.empty()) {
    const uint64_t tag = TakeVarint(message);
    Field field;
    field.number = static_cast<int>(tag >> 3);
    field.type = static_cast<int>(tag & 7);
    if (field.type == 0) field.integer = TakeVarint(message);
    if (field.type == 1) field.integer = Take(message, 8);
    if (field.type == 5) field.integer = Take(message, 4);
    if (field.type == 2) {
      const uint64_t size = TakeVarint(message);
      MT_CHECK(message.size() >= size);
      field.bytes = message.substr(0, size);
      message.remove_prefix(size);
    }
    visit(field);
  }
}

SeenEvent::Image ImageOf(std::string_view message) {
  SeenEvent::Image image;
  EachField(message, [&](const Field& field) {
    if (field.number == 1) image.height = static_cast<int64_t>(field.integer);
    if (field.number == 2) image.width = static_cast<int64_t>(field.integer);
    if (field.number == 3) image.colorspace = static_cast<int64_t>(field.integer);
    if (field.number == 4) image.bytes = field.bytes;
  });
  return image;
}

std::string StringOf(std::string_view tensor) {
  std::string text;
  EachField(tensor, [&](const Field& field) {
    if (field.number == 8) text = field.bytes;
  });
  return text;
}

void ReadValue(std::string_view message, SeenEvent& event) {
  std::string tag;
  EachField(message, [&](const Field& field) {
    if (field.number == 1) tag = field.bytes;
    if (field.number == 2) event.scalars[tag] = field.Float();
    if (field.number == 4) event.images[tag] = ImageOf(field.bytes);
    if (field.number == 8) event.texts[tag] = StringOf(field.bytes);
  });
}

SeenEvent EventOf(std::string_view message) {
  SeenEvent event;
  EachField(message, [&](const Field& field) {
    if (field.number == 1) event.wall_time = field.Double();
    if (field.number == 2) event.step = static_cast<int64_t>(field.integer);
    if (field.number == 3) event.file_version = field.bytes;
    if (field.number == 5) EachField(field.bytes, [&](const Field& one) { ReadValue(one.bytes, event); });
    if (field.number == 7) {
      EachField(field.bytes, [&](const Field& log) { event.start = log.number == 1 && log.integer == 1; });
    }
  });
  return event;
}

}  // namespace

Frame ReadFrame(std::string_view bytes) {
  if (bytes.size() < kHeadBytes) return {};
  const auto length = NumberAt<uint64_t>(bytes, 0);
  const bool sound = NumberAt<uint32_t>(bytes, kLengthBytes) == MaskedCrc32c(bytes.substr(0, kLengthBytes));
  if (!sound || length > kMaxRecordBytes) return {.state = Frame::State::kDamaged};
  const size_t size = kHeadBytes + length + kSumBytes;
  if (bytes.size() < size) return {};
  const std::string_view record = bytes.substr(kHeadBytes, length);
  if (NumberAt<uint32_t>(bytes, kHeadBytes + length) != MaskedCrc32c(record))
    return {.state = Frame::State::kDamaged};
  return {.state = Frame::State::kWhole, .record = record, .size = size};
}

SeenFile ReadEventFile(std::string_view bytes) {
  SeenFile file;
  while (!bytes.empty()) {
    const Frame frame = ReadFrame(bytes);
    if (frame.state != Frame::State::kWhole) {
      file.end = frame.state == Frame::State::kCut ? "cut" : "damaged";
      break;
    }
    file.events.push_back(EventOf(frame.record));
    bytes.remove_prefix(frame.size);
  }
  return file;
}

std::vector<SeenFile> ReadEventFolder(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<SeenFile> files;
  for (const std::string& path : paths) files.push_back(ReadEventFile(ReadFile(path).value()));
  return files;
}

std::vector<std::pair<int64_t, double>> CurveOf(const std::vector<SeenFile>& files, const std::string& tag) {
  std::vector<std::pair<int64_t, double>> curve;
  for (const SeenFile& file : files) {
    for (const SeenEvent& event : file.events) {
      if (event.start) std::erase_if(curve, [&](const auto& point) { return point.first >= event.step; });
      if (const auto found = event.scalars.find(tag); found != event.scalars.end())
        curve.emplace_back(event.step, found->second);
    }
  }
  return curve;
}

std::vector<int64_t> StepsOf(const std::vector<SeenFile>& files, const std::string& tag) {
  std::vector<int64_t> steps;
  for (const SeenFile& file : files) {
    for (const SeenEvent& event : file.events) {
      if (event.start) std::erase_if(steps, [&](int64_t step) { return step >= event.step; });
      if (event.images.contains(tag) || event.texts.contains(tag)) steps.push_back(event.step);
    }
  }
  return steps;
}

}  // namespace mtrun::tensorboard
