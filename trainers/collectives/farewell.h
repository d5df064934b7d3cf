// What ranks say on a control connection, and all they ever say there: that they leave in order, or that they
// gave up.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtrun::collectives {

struct Farewell {
  bool orderly = true;  // false: the sender's group failed or was aborted
  std::string why;
};

/// 'G' for an orderly end; 'A', two bytes of length (little-endian) and the reason otherwise, cut at 1000
/// bytes.
std::string Encode(const Farewell& farewell);
/// Nothing until the whole message is there.
std::optional<Farewell> DecodeFarewell(std::string_view bytes);

}  // namespace mtrun::collectives
