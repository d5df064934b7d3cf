// Bytes to and from one client, over plain TCP or TLS. Non-blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "web/tls_context.h"

namespace mtrun::web {

class Transport {
 public:
  enum class Next {
    kDone,      // `bytes` were transferred, at least one
    kReadable,  // none were: retry with the same bytes when the socket is readable
    kWritable,  // likewise, writable
    kClosed,    // the peer has closed, or the connection is broken
  };
  struct Result {
    Next next = Next::kClosed;
    size_t bytes = 0;
  };

  virtual ~Transport() = default;
  virtual Result Read(char* into, size_t most) = 0;
  virtual Result Write(std::string_view bytes) = 0;
  /// Sends from an open file; kClosed also if the file has become shorter.
  virtual Result SendFile(int file, int64_t offset, int64_t most) = 0;
  /// Tells the peer that no more data will be sent.
  virtual void EndSending() = 0;
};

/// `socket` must be non-blocking and outlive the transport. SIGPIPE must be blocked on the thread.
std::unique_ptr<Transport> PlainTransport(int socket);
/// The server's TLS handshake is part of the first calls.
std::unique_ptr<Transport> TlsTransport(int socket, TlsContext& context);

}  // namespace mtrun::web
