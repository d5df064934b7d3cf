// Selects the part of a file that a request asks for: one range of bytes (RFC 9110, 14). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtrun::web {

struct ByteRange {
  enum class Kind {
    kWhole,       // the whole file: no range, or one that can be ignored
    kPart,        // `offset` and `length`, inside the file, at least one byte
    kImpossible,  // beyond the end of the file
  };
  Kind kind = Kind::kWhole;
  int64_t offset = 0, length = 0;  // whole: 0 and the size
  bool operator==(const ByteRange&) const = default;
};

/// Parses the Range header `header` ("" if absent) for a file of `size` bytes. As the protocol allows, the
/// whole file is sent if the header is malformed, uses another unit than bytes, or asks for several ranges.
/// Numbers can have any number of digits.
ByteRange SelectRange(std::string_view header, int64_t size);

}  // namespace mtrun::web
