// What ranks say on a control connection, and all they ever say there: that they leave gracefully, or that
// their group failed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mtrun::collectives {

struct ShutdownNotice {
  bool graceful = true;  // false: the sender's group failed or was aborted
  std::string why;
};

/// 'G' for a graceful end; 'A', two bytes of length (little-endian) and the reason otherwise, cut at 1000
/// bytes.
std::string Encode(const ShutdownNotice& notice);
/// No notice is longer.
inline constexpr size_t kMostNoticeBytes = 1003;
/// Nothing until the whole message is there. What no rank says is a failure of who says it.
std::optional<ShutdownNotice> DecodeShutdownNotice(std::string_view bytes);

}  // namespace mtrun::collectives
