// What ranks say on a control connection, and all they ever say there: that they leave gracefully, or that
// their group failed.
#pragma once

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
/// Nothing until the whole message is there.
std::optional<ShutdownNotice> DecodeShutdownNotice(std::string_view bytes);

}  // namespace mtrun::collectives
