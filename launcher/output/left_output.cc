#include "launcher/output/left_output.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace mtrun::launcher {
namespace {

struct Route {
  int source, file, console;
};

void WriteSome(int fd, const char* bytes, ssize_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, bytes, static_cast<size_t>(size));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // it cannot be reported
    bytes += written;
    size -= written;
  }
}

/// Forwards one block; returns false at the end of the stream.
bool Carry(const Route& route) {
  char bytes[16 << 10];
  const ssize_t size = read(route.source, bytes, sizeof bytes);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (size <= 0) return false;
  if (route.file >= 0) WriteSome(route.file, bytes, size);
  if (route.console >= 0) WriteSome(route.console, bytes, size);
  return true;
}

/// Makes only async-signal-safe calls: other threads may have held locks at the fork.
[[noreturn]] void RunCarrier(Route* routes, pollfd* ready, size_t count) {
  setsid();
  prctl(PR_SET_NAME, "mt-output");
  prctl(PR_SET_PDEATHSIG, 0);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  size_t left = count;
  while (left > 0) {
    for (size_t i = 0; i < count; ++i) ready[i] = {routes[i].source, POLLIN, 0};
    if (poll(ready, count, -1) < 0) continue;
    for (size_t i = 0; i < count; ++i) {
      if (ready[i].revents == 0 || Carry(routes[i])) continue;
      close(routes[i].source);
      routes[i].source = -1;  // ignored by poll
      --left;
    }
  }
  _exit(0);
}

/// Closes every descriptor except `kept`, which are sorted, and 0 to 2.
void CloseOthers(const int* kept, size_t count) {
  unsigned from = STDERR_FILENO + 1;
  for (size_t i = 0; i < count; ++i) {
    const auto fd = static_cast<unsigned>(kept[i]);
    if (fd > from) close_range(from, fd - 1, 0);
    from = std::max(from, fd + 1);
  }
  close_range(from, ~0U, 0);
}

}  // namespace

void CarryOn(std::vector<OpenOutput> outputs) {
  std::vector<Route> routes;
  std::vector<int> kept;
  for (const OpenOutput& output : outputs) {
    routes.push_back({output.source.get(), output.file.get(), output.console});
    for (const int fd : {output.source.get(), output.file.get(), output.console})
      if (fd >= 0) kept.push_back(fd);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<pollfd> ready(routes.size());
  const pid_t child = _Fork();
  if (child < 0)
    log::Warning("the output of processes that the workers have started is lost: fork: ",
                 std::strerror(errno));
  if (child != 0) return;
  CloseOthers(kept.data(), kept.size());
  RunCarrier(routes.data(), ready.data(), routes.size());
}

}  // namespace mtrun::launcher
