#include "base/version.h"

namespace mtrun {

std::string Version() { return MTRUN_VERSION; }

}  // namespace mtrun
