// A process of another user that listens at a Unix address, which a client must refuse. It needs root.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/posix.h"
#include "base/unix_address.h"

namespace mtrun::support {

class OtherUsersListener {
 public:
  /// `path`: as for ParseUnixAddress.
  explicit OtherUsersListener(const std::string& path) {
    int ready[2], end[2];
    if (pipe(ready) != 0 || pipe(end) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(end[1]);
      _exit(Run(path, ready[1], end[0]));
    }
    close(ready[1]);
    close(end[0]);
    ready_ = UniqueFd(ready[0]);
    end_ = UniqueFd(end[1]);
  }
  /// Returns whether it listens; waits until then.
  bool Listens() const {
    char byte = 0;
    return read(ready_.get(), &byte, 1) == 1;
  }
  /// Ends it. Returns the status of its process, 0 if it listened; -1: it could not be started.
  int End() {
    end_ = UniqueFd();
    int status = -1;
    return pid_ > 0 && waitpid(pid_, &status, 0) == pid_ ? status : -1;
  }

 private:
  static int Run(const std::string& path, int ready, int end) {
    const UnixAddress address = *ParseUnixAddress(path);
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    char byte = 0;
    if (setuid(65534) != 0 || bind(listener.get(), address.get(), address.size) != 0) return 2;
    const bool told = listen(listener.get(), 1) == 0 && write(ready, &byte, 1) == 1;
    return told && read(end, &byte, 1) == 0 ? 0 : 3;
  }

  pid_t pid_ = -1;
  UniqueFd ready_, end_;
};

}  // namespace mtrun::support
