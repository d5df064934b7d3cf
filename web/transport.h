// Bytes to and from one client, over TCP as it is or with TLS. Nothing waits; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "web/tls_context.h"

namespace mtrun::web {

class Transport {
 public:
  enum class Next {
    kDone,      // `bytes` have passed, at least one
    kReadable,  // nothing has: try again, with the same bytes, when the socket can be read from
    kWritable,  // likewise, written to
    kClosed,    // the other end has closed, or the connection is broken
  };
  struct Result {
    Next next = Next::kClosed;
    size_t bytes = 0;
  };

  virtual ~Transport() = default;
  virtual Result Read(char* into, size_t most) = 0;
  virtual Result Write(std::string_view bytes) = 0;
  /// From an open file; kClosed too when the file has become shorter.
  virtual Result SendFile(int file, int64_t offset, int64_t most) = 0;
  /// Tells the other end that nothing more will be sent.
  virtual void EndSending() = 0;
};

/// `socket` is non-blocking and outlives the transport. SIGPIPE must be blocked on the thread.
std::unique_ptr<Transport> PlainTransport(int socket);
/// The handshake, as a server, is part of the first calls.
std::unique_ptr<Transport> TlsTransport(int socket, const TlsContext& context);

}  // namespace mtrun::web
