// Prevents name lookups by LibTorch's TCPStore, which looks up the name of each peer's address only for its
// log. If the name server does not answer, each lookup costs seconds.
#pragma once

namespace mtrun::trainers {

/// Makes getnameinfo() return numeric addresses in this process from now on, without a lookup. Thread-safe.
void KeepAddressesNumeric();

}  // namespace mtrun::trainers
