#include "base/log_level.h"

#include <cstdlib>

#include "base/log.h"

namespace mtrun::log {

void SetUpFromEnvironment(std::string_view program) {
  Level level = Level::kInfo;
  const char* const given = std::getenv("LOGLEVEL");
  const bool known = given == nullptr || *given == '\0' || ParseLevel(given, &level);
  SetUp(program, level);
  if (!known) Warning("LOGLEVEL: \"", given, "\" is not allowed; it takes debug, info, warning or error");
}

}  // namespace mtrun::log
