#include "launcher/workers/warm_python.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

constexpr timeval kAnswerPatience = {10, 0};

// The head of warm_python.py describes what it is sent and what it answers.
constexpr char kProgram[] =
#include "launcher/workers/warm_python_text.inc"  // made by CMake of warm_python.py
    ;

std::string Payload(const ProcessSpec& spec) {
  constexpr size_t kOwnWords = 2;  // interpreter and -u
  std::string texts = absl::StrCat(spec.argv.size() - kOwnWords, std::string(1, '\0'));
  const auto add = [&](absl::string_view text) { absl::StrAppend(&texts, text, std::string(1, '\0')); };
  for (size_t i = kOwnWords; i < spec.argv.size(); ++i) add(spec.argv[i]);
  add(absl::StrCat(spec.environment.size()));
  for (const auto& [name, value] : spec.environment) add(absl::StrCat(name, "=", value));
  add(absl::StrJoin(spec.cpus, ","));
  add(absl::StrJoin(spec.kept, ","));
  return texts;
}

/// Sends the payload's size together with the descriptors.
absl::Status SendHead(int socket, int64_t size, const std::vector<int>& fds) {
  iovec bytes = {&size, sizeof size};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof size) return absl::OkStatus();
  return ErrnoStatus(errno, "ask the warm interpreter for a worker");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WarmPython>> WarmPython::Start(const std::string& python,
                                                              EnvironmentMap environment,
                                                              const std::vector<std::string>& modules) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus(errno, "make a socket for the warm interpreter");
  UniqueFd own(ends[0]);
  const UniqueFd other(ends[1]);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    setsockopt(own.get(), SOL_SOCKET, option, &kAnswerPatience, sizeof kAnswerPatience);
  ProcessSpec spec = {.file = python,
                      .argv = {python, "-u", "-c", kProgram, absl::StrCat(other.get())},
                      .environment = std::move(environment),
                      .kept = {other.get()}};
  spec.argv.insert(spec.argv.end(), modules.begin(), modules.end());
  MT_ASSIGN_OR_RETURN(Process process, Process::Start(spec));
  return std::unique_ptr<WarmPython>(new WarmPython(std::move(process), std::move(own)));
}

bool WarmPython::IsReady() {
  char said = 0;
  if (!ready_ && recv(socket_.get(), &said, 1, MSG_DONTWAIT) == 1) ready_ = said == 'r';
  return ready_ && IsAlive();
}

absl::StatusOr<Process> WarmPython::Fork(const ProcessSpec& spec) {
  return Process::StartBy([&](int output, int error) { return Ask(spec, output, error); }, spec);
}

absl::StatusOr<pid_t> WarmPython::Ask(const ProcessSpec& spec, int output, int error) {
  const std::string payload = Payload(spec);
  std::vector<int> fds = {output, error};
  fds.insert(fds.end(), spec.kept.begin(), spec.kept.end());
  absl::Status asked = SendHead(socket_.get(), static_cast<int64_t>(payload.size()), fds);
  for (size_t at = 0; asked.ok() && at < payload.size();) {
    const ssize_t sent = send(socket_.get(), payload.data() + at, payload.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) asked = ErrnoStatus(errno, "ask the warm interpreter for a worker");
    if (sent > 0) at += static_cast<size_t>(sent);
  }
  int32_t pid = 0;
  if (asked.ok() && recv(socket_.get(), &pid, sizeof pid, MSG_WAITALL) == sizeof pid && pid > 0) return pid;
  ready_ = false;
  socket_.Reset();
  return absl::UnavailableError(asked.ok() ? "the warm interpreter does not answer" : asked.message());
}

}  // namespace mtrun::launcher
