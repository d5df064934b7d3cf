// What a person shows to a rendezvous service.
#pragma once

#include "base/token.h"

namespace mtrun::rendezvous {

struct Credentials {
  bool insecure = false;   // --insecure: plain text, no token
  TokenSource token = {};  // where it is, read when it is needed
};

}  // namespace mtrun::rendezvous
