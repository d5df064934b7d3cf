#include "launcher/top.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/worker_env.h"
#include "launcher/top_screen.h"
#include "rendezvous/client/job_finder.h"

namespace mtrun::launcher {
namespace {

constexpr int kPauseMs = 1000;
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";  // the alternate screen, no cursor
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";

std::string TimeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return text;
}

/// Switches the terminal to full-screen mode, and restores it on destruction.
class FullScreen {
 public:
  FullScreen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C stays a signal
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    Write(kEnter);
  }
  ~FullScreen() {
    Write(kLeave);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  static void Write(const std::string& text) { WriteAll(STDOUT_FILENO, text).IgnoreError(); }

 private:
  termios before_ = {};
};

void Show(const TopScreen& screen) {
  const TerminalSize size = TerminalSize::Of(STDOUT_FILENO);
  // Each line erases the rest of the old one, to avoid flicker.
  const std::string text = absl::StrReplaceAll(screen.Draw(size), {{"\n", "\x1b[K\r\n"}});
  FullScreen::Write(absl::StrCat("\x1b[H", text, "\x1b[K\x1b[J"));
}

/// Waits for a key, a signal or the timeout; returns true to quit.
bool WaitForEnd(int signals) {
  pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
  if (poll(fds, 2, kPauseMs) <= 0) return false;
  if ((fds[1].revents & POLLIN) != 0) {
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGWINCH) return true;
    }
  }
  char key = 0;
  if ((fds[0].revents & POLLIN) != 0) return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
  return (fds[0].revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

absl::Status RunTop(const std::vector<std::string>& endpoints, const rendezvous::Credentials& credentials) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
    return absl::FailedPreconditionError("--top needs a terminal; without one, use --status --watch");
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&wanted, signal);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  const UniqueFd signals(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return ErrnoStatus(errno, "watch signals");
  rendezvous::JobFinder job(endpoints, [&](const std::string& endpoint) {
    return rendezvous::AskForStatus(endpoint, credentials);
  });
  auto status = job.Find();
  MT_RETURN_IF_ERROR(status.status());
  TopScreen screen(absl::StrJoin(endpoints, ","), WantsColours(CurrentEnvironment()));
  screen.OnAnswer(*status, TimeOfDay());
  const FullScreen terminal;
  // Asynchronous, so that a service that hangs does not block the keys.
  std::future<absl::StatusOr<rendezvous::ServiceStatus>> asked;
  while (true) {
    Show(screen);
    if (WaitForEnd(signals.get())) return absl::OkStatus();
    if (!asked.valid()) asked = std::async(std::launch::async, [&] { return job.Find(); });
    if (asked.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) continue;
    status = asked.get();
    status.ok() ? screen.OnAnswer(*status, TimeOfDay()) : screen.OnSilence(status.status(), TimeOfDay());
  }
}

}  // namespace mtrun::launcher
