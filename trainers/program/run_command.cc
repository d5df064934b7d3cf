#include "trainers/program/run_command.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/child_exit.h"
#include "base/posix.h"

extern char** environ;

namespace mtrun::trainers {

absl::StatusOr<int> RunCommand(std::vector<std::string> command, std::optional<Duration> timeout) {
  const std::vector<char*> argv = ExecWords(command);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv.front(), nullptr, nullptr, argv.data(), environ);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start ", command.front()));
  if (timeout && !AwaitExit(pid, *timeout)) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", command.front()));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mtrun::trainers
