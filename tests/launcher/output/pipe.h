// Helpers shared by the tests in this folder.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::launcher {

/// Long enough for a loaded machine with sanitizers.
inline constexpr Duration kPatience = std::chrono::seconds(60);

struct Pipe {
  UniqueFd read, write;
  Pipe() {
    int fds[2];
    MT_CHECK(pipe2(fds, O_CLOEXEC) == 0);
    read = UniqueFd(fds[0]);
    write = UniqueFd(fds[1]);
  }
};

}  // namespace mtrun::launcher
