#include "launcher/ssh/host_end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "base/version.h"
#include "launcher/ssh/ssh_command.h"

namespace mtrun::launcher {
namespace {

constexpr int kNoOrder = 1, kSignalled = 128;

Greeting OwnGreeting() {
  Greeting greeting = {.version = Version(), .host = HostName()};
  // "client 50022 server 22"
  const char* connection = getenv("SSH_CONNECTION");
  const std::vector<std::string> words = absl::StrSplit(connection == nullptr ? "" : connection, ' ');
  if (words.size() == 4) greeting.address = words[2];
  return greeting;
}

/// Reads standard input, with a limit on silence.
class OrderStream {
 public:
  /// Returns the next message; nullopt if the connection is lost, or if `other` (-1: none) is readable.
  std::optional<HostInput::Message> Next(int other, bool* other_is_ready) {
    while (true) {
      absl::StatusOr<std::optional<HostInput::Message>> message = input_.Next();
      if (!message.ok()) return std::nullopt;
      if (*message) return *std::move(message);
      pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {other, POLLIN, 0}};
      constexpr auto kSilence = std::chrono::duration_cast<std::chrono::milliseconds>(kMaxSilence);
      const int count = poll(ready, 2, static_cast<int>(kSilence.count()));
      if (count < 0 && errno == EINTR) continue;
      *other_is_ready = count > 0 && ready[1].revents != 0;
      if (count <= 0 || *other_is_ready || !Read()) return std::nullopt;
    }
  }

 private:
  bool Read() {
    char bytes[4096];
    ssize_t size = -1;
    do size = read(STDIN_FILENO, bytes, sizeof bytes);
    while (size < 0 && errno == EINTR);
    if (size > 0) input_.Append({bytes, static_cast<size_t>(size)});
    return size > 0;
  }

  HostInput input_;
};

/// Returns the signal that the one child's exit sends; it is read, not handled (a pidfd needs Linux 5.3).
sigset_t ChildSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  return set;
}

int StatusOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status); }

/// Main loop of the process that keeps the connection.
[[noreturn]] void Attend(pid_t child, const std::string& nonce, OrderStream& orders) {
  prctl(PR_SET_NAME, "mt-ssh");
  // A signal to all processes of this name reaches the child too, whose exit must be reported.
  for (const int ignored : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) signal(ignored, SIG_IGN);
  const sigset_t exits = ChildSignal();
  const UniqueFd ended(signalfd(-1, &exits, SFD_CLOEXEC));
  bool has_ended = false;
  while (ended.valid()) {
    const auto message = orders.Next(ended.get(), &has_ended);
    if (!message) break;
    if (const auto* signal = std::get_if<HostInput::Signal>(&*message)) kill(child, signal->number);
  }
  // The user's mtrun is gone, so no other process could stop this job; or its end could not be noticed.
  if (!has_ended) kill(child, SIGTERM);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  WriteAll(STDOUT_FILENO, EncodeEnd(StatusOf(status), nonce)).IgnoreError();
  _exit(StatusOf(status));
}

absl::Status Follow(const Order& order) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid() || dup2(null.get(), STDIN_FILENO) < 0) return ErrnoStatus(errno, "open /dev/null");
  for (const auto& [name, value] : order.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!order.token.empty()) setenv(kTokenVariable, order.token.c_str(), 1);
  if (chdir(order.folder.c_str()) != 0) {
    return ErrnoStatus(errno,
                       absl::StrCat("go to the folder ", order.folder, " (--ssh_folder changes this)"));
  }
  setenv("PWD", order.folder.c_str(), 1);
  return absl::OkStatus();
}

}  // namespace

bool IsHostEnd(const std::vector<std::string>& args) {
  return args.size() == 1 && args.front() == kSshHostFlag;
}

absl::StatusOr<Order> BecomeHostEnd() {
  MT_RETURN_IF_ERROR(WriteAll(STDOUT_FILENO, Encode(OwnGreeting())));
  OrderStream orders;
  std::optional<Order> order;
  bool ignored = false;
  while (!order) {
    std::optional<HostInput::Message> message = orders.Next(-1, &ignored);
    if (!message) _exit(kNoOrder);
    if (auto* given = std::get_if<Order>(&*message)) order = std::move(*given);
  }
  const sigset_t exits = ChildSignal();
  struct sigaction noticed = {};
  noticed.sa_handler = SIG_DFL;
  noticed.sa_flags = SA_NOCLDSTOP;
  sigaction(SIGCHLD, &noticed, nullptr);
  sigprocmask(SIG_BLOCK, &exits, nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child > 0) Attend(child, order->nonce, orders);
  sigprocmask(SIG_UNBLOCK, &exits, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kSignalled + SIGKILL);
  MT_RETURN_IF_ERROR(Follow(*order));
  return *std::move(order);
}

}  // namespace mtrun::launcher
