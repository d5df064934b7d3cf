// The only message of a control connection: its sender leaves gracefully, or the sender's group failed.
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

/// Returns 'G' for a graceful end; otherwise 'A', a two-byte length (little-endian) and the reason, cut at
/// 1000 bytes.
std::string Encode(const ShutdownNotice& notice);
/// Length of the longest notice.
inline constexpr size_t kMaxNoticeBytes = 1003;
/// Returns nothing until the whole message has arrived. A malformed message counts as its sender's failure.
std::optional<ShutdownNotice> DecodeShutdownNotice(std::string_view bytes);

}  // namespace mtrun::collectives
