// Frames of a TFRecord file: length (8 bytes, little-endian), its masked CRC32C, the bytes, theirs. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtrun::tensorboard {

/// `record` in its frame, behind `out`.
void AppendFrame(std::string& out, std::string_view record);

/// What stands at the beginning of `bytes`.
struct Frame {
  enum class State {
    kWhole,    // `record` is one, and the next frame begins `size` bytes later
    kCut,      // the file ends within it: its writer was killed, or still writes
    kDamaged,  // a checksum does not fit, or it is longer than any record: nothing behind it can be found
  };
  State state = State::kCut;
  std::string_view record = {};  // within `bytes`
  size_t size = 0;
  bool operator==(const Frame&) const = default;
};
/// No record of ours is longer: pictures are bounded long before.
inline constexpr uint64_t kMostRecordBytes = 64 << 20;
Frame ReadFrame(std::string_view bytes);

}  // namespace mtrun::tensorboard
