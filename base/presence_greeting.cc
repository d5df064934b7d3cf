#include "base/presence_greeting.h"

namespace mtrun {

std::string PresenceGreeting(uint64_t id) {
  std::string greeting = "mtrun-up";
  for (int shift = 56; shift >= 0; shift -= 8) greeting += static_cast<char>(id >> shift & 0xFF);
  return greeting;
}

}  // namespace mtrun
