// LibTorch's TCPStore asks the name service for the name of each peer's address, for its log alone. Nobody
// named that name server, and where it does not answer each question costs seconds.
#pragma once

namespace mtrun::trainers {

/// From now on addresses keep their numbers in this process: getnameinfo() asks nobody. Thread-safe.
void KeepAddressesNumeric();

}  // namespace mtrun::trainers
