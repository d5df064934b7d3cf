// Text from outside as UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string_view>

namespace mtrun {

/// Bytes of the character that begins there, 1 to 4; 0 where none does: what follows is not UTF-8.
size_t CharacterLength(std::string_view text, size_t at);
/// UTF-8 without control characters, which a terminal may show as it is.
bool IsPlainText(std::string_view text);

}  // namespace mtrun
