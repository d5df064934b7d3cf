// How OpenSSL ends in a program with threads that are not its own.
#pragma once

namespace mtrun {

/// Call it before anything uses OpenSSL: its state then stays until the process is gone. By itself OpenSSL
/// frees it in exit(), where gRPC's threads may still be closing their connections with it.
void KeepOpenSslUntilTheEnd();

}  // namespace mtrun
