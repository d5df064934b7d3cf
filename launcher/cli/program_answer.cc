#include "launcher/cli/program_answer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/signal_name.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMostBytes = 64 << 10;

/// The reading ends of a child's standard output and standard error, and their texts.
struct Said {
  UniqueFd ends[2];
  std::string texts[2];

  bool open() const { return ends[0].valid() || ends[1].valid(); }
  /// Waits for more until `deadline`; returns false if nothing came.
  bool Hear(TimePoint deadline) {
    pollfd polled[2] = {{ends[0].get(), POLLIN, 0}, {ends[1].get(), POLLIN, 0}};
    const Duration left = deadline - MonotonicNow();
    if (left <= Duration::zero()) return false;
    const int wait = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    const int ready = poll(polled, 2, wait);
    if (ready <= 0) return ready < 0 && errno == EINTR;
    for (int at : {0, 1}) {
      if (polled[at].revents == 0) continue;
      char piece[4096];
      const ssize_t got = read(ends[at].get(), piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        ends[at].Reset();
      } else if (texts[at].size() < kMostBytes) {
        texts[at].append(piece, static_cast<size_t>(got));
      }
    }
    return true;
  }
};

/// Starts `argv` with `outputs` as its standard output and error, in a process group of its own; returns its
/// process, or an error.
absl::StatusOr<pid_t> Start(const std::vector<std::string>& argv, const UniqueFd (&outputs)[2]) {
  const std::vector<char*> words = ExecWords(argv);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, outputs[0].get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, outputs[1].get(), STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return absl::UnavailableError(ErrnoStatus(error, absl::StrCat("start ", argv.front())).message());
  return pid;
}

std::string LastLine(const std::string& text) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  return trimmed.substr(trimmed.rfind('\n') + 1);
}

}  // namespace

absl::StatusOr<std::string> AnswerOf(const std::vector<std::string>& argv, Duration limit) {
  const TimePoint deadline = MonotonicNow() + limit;
  Said said;
  UniqueFd outputs[2];
  for (int at : {0, 1}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
    said.ends[at] = UniqueFd(ends[0]);
    outputs[at] = UniqueFd(ends[1]);
  }
  const absl::StatusOr<pid_t> pid = Start(argv, outputs);
  for (UniqueFd& output : outputs) output.Reset();
  if (!pid.ok()) return pid.status();
  while (said.open() && said.Hear(deadline)) continue;
  const bool late = said.open();
  if (late) kill(-*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) continue;
  if (late) return absl::DeadlineExceededError(absl::StrCat("no answer within ", HumanDuration(limit)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said.texts[0];
  const std::string why = LastLine(said.texts[1]);
  const std::string end = WIFEXITED(status) ? absl::StrCat("exit status ", WEXITSTATUS(status))
                                            : absl::StrCat("killed by ", SignalName(WTERMSIG(status)));
  return absl::InternalError(why.empty() ? end : why);
}

}  // namespace mtrun::launcher
