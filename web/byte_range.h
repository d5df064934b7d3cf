// Which part of a file a request asks for: one range of bytes (RFC 9110, 14). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtrun::web {

struct ByteRange {
  enum class Kind {
    kWhole,       // no range was asked for, or one that may be passed over: the whole file
    kPart,        // `offset` and `length`, inside the file, at least one byte
    kImpossible,  // it lies behind the end of the file
  };
  Kind kind = Kind::kWhole;
  int64_t offset = 0, length = 0;  // whole: 0 and the size
  bool operator==(const ByteRange&) const = default;
};

/// `header` is the value of Range, "" without one; `size` is that of the file. What is malformed, counts in
/// another unit than bytes or asks for several ranges at once is answered with the whole file, as the
/// protocol allows. Any number of digits is read.
ByteRange SelectRange(std::string_view header, int64_t size);

}  // namespace mtrun::web
