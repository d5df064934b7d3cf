// Credentials that a user presents to a rendezvous service.
#pragma once

#include "base/token.h"

namespace mtrun::rendezvous {

struct Credentials {
  bool insecure = false;   // --insecure: plain text, no token
  TokenSource token = {};  // where the token is; it is read when it is needed
};

}  // namespace mtrun::rendezvous
