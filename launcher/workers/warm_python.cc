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

// Arguments: the socket's descriptor, the modules. A request: its size and the descriptors (output, error,
// those kept), then texts that end in NUL: how many words, the words, how many variables, the variables,
// processors, the numbers of the kept descriptors. The answer: the worker's pid.
constexpr char kBootstrap[] = R"(
import ctypes, fcntl, importlib, os, runpy, signal, socket, struct, sys, time

def take(channel, size):
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data

def serve(channel):
    "Returns in the workers only, with what each is to run."
    agent = os.getppid()
    channel.sendall(b"r")
    while True:
        head, fds, _, _ = socket.recv_fds(channel, 8, 64)
        if not head:
            os._exit(0)
        head += take(channel, 8 - len(head))
        texts = take(channel, struct.unpack("=q", head)[0]).split(b"\0")
        answer, tell = os.pipe()
        middle = os.fork()
        if middle == 0:
            if os.fork() != 0:
                os._exit(0)
            channel.close()
            os.close(answer)
            os.setsid()
            while os.getppid() != agent:
                time.sleep(0.0005)
            os.write(tell, struct.pack("=i", os.getpid()))
            os.close(tell)
            return become(agent, texts, fds)
        os.close(tell)
        os.waitpid(middle, 0)
        pid = os.read(answer, 4)
        os.close(answer)
        for fd in fds:
            os.close(fd)
        channel.sendall(pid)

def become(agent, texts, fds):
    count = int(texts.pop(0))
    words, texts = texts[:count], texts[count:]
    count = int(texts.pop(0))
    variables, (cpus, kept) = texts[:count], texts[count:count + 2]
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass
    if os.getppid() != agent:
        os._exit(127)
    # Out of the way of the numbers that they get.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(high, [1, 2] + [int(number) for number in kept.split(b",") if number]):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.environb.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    if cpus:
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(b",")])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # as if it had been imported here
    return [os.fsdecode(word) for word in words]

class AsGiven(list):
    "A list of words that runpy leaves alone: a program's own name is the word that it was started by."
    def __setitem__(self, place, word):
        sys.argv = list(self)

def run(words):
    module = words[0] == "-m"
    sys.argv = words[1:] if module else AsGiven(words)
    if module:
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
        # Whole, as Python itself has it: programs find their files by __file__ from wherever they went.
        runpy.run_path(os.path.abspath(words[0]), run_name="__main__")

channel = socket.socket(fileno=int(sys.argv[1]))
for name in sys.argv[2:]:
    importlib.import_module(name)
run(serve(channel))
)";

std::string Payload(const ProcessSpec& spec) {
  constexpr size_t kOwnWords = 2;  // the interpreter and -u
  std::string texts = absl::StrCat(spec.argv.size() - kOwnWords, std::string(1, '\0'));
  const auto add = [&](absl::string_view text) { absl::StrAppend(&texts, text, std::string(1, '\0')); };
  for (size_t i = kOwnWords; i < spec.argv.size(); ++i) add(spec.argv[i]);
  add(absl::StrCat(spec.environment.size()));
  for (const auto& [name, value] : spec.environment) add(absl::StrCat(name, "=", value));
  add(absl::StrJoin(spec.cpus, ","));
  add(absl::StrJoin(spec.kept, ","));
  return texts;
}

/// The payload's size, with the descriptors.
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
                      .argv = {python, "-u", "-c", kBootstrap, absl::StrCat(other.get())},
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
