#include "base/openssl.h"

#include <openssl/crypto.h>

namespace mtrun {

void KeepOpenSslUntilTheEnd() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

}  // namespace mtrun
