#include "launcher/workers/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/child_exit.h"
#include "base/file_limit.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kReapPatience = std::chrono::seconds(1);

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe for a worker");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

/// Makes a terminal with the size of `like`, if that is a terminal. Output is not processed: the terminal on
/// which it is shown adds the carriage returns.
absl::StatusOr<Pipe> MakeTerminal(int like) {
  UniqueFd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master.valid() || grantpt(master.get()) != 0 || unlockpt(master.get()) != 0)
    return ErrnoStatus(errno, "make a terminal for a worker");
  UniqueFd worker(ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!worker.valid()) return ErrnoStatus(errno, "open a worker's terminal");
  termios modes = {};
  if (tcgetattr(worker.get(), &modes) == 0) {
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(worker.get(), TCSANOW, &modes);
  }
  winsize size = {};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(worker.get(), TIOCSWINSZ, &size);
  return Pipe{std::move(master), std::move(worker)};
}

absl::StatusOr<Pipe> MakeStream(bool terminal, int like) {
  if (!terminal) return MakePipe();
  absl::StatusOr<Pipe> made = MakeTerminal(like);
  return made.ok() ? std::move(made) : MakePipe();  // in a container without /dev/pts
}

/// The child's arguments; their memory is allocated before the fork.
struct Launch {
  const char* file;
  char* const* argv;
  char* const* environment;
  int input, output, error, report;  // input -1: inherited
  pid_t parent;
  const cpu_set_t* cpus;                // nullptr: leave as it is
  const unsigned long* preferred_node;  // a mask of kNodeBits, nullptr: leave as it is
  const int *kept, *kept_end;
  rlimit files;
};

constexpr int kPreferred = 1;       // MPOL_PREFERRED of <numaif.h>, which only libnuma provides
constexpr size_t kNodeBits = 1024;  // more NUMA nodes than any kernel is built for

cpu_set_t SetOf(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  return set;
}

/// Makes only async-signal-safe calls and writes only to the stack: the memory is the parent's, whose other
/// threads continue.
[[noreturn]] void RunChild(const Launch& launch) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool tied = launch.cpus == nullptr || sched_setaffinity(0, sizeof *launch.cpus, launch.cpus) == 0;
  // Containers often forbid this; memory comes from the processors' own node anyway.
  if (launch.preferred_node != nullptr)
    syscall(SYS_set_mempolicy, kPreferred, launch.preferred_node, kNodeBits + 1);
  // Closes descriptors of libraries without CLOEXEC and inherited ones; before Linux 5.11 only our own.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int* fd = launch.kept; fd != launch.kept_end; ++fd) fcntl(*fd, F_SETFD, 0);
  setrlimit(RLIMIT_NOFILE, &launch.files);
  const bool fed = launch.input < 0 || dup2(launch.input, STDIN_FILENO) >= 0;
  if (tied && fed && dup2(launch.output, STDOUT_FILENO) >= 0 && dup2(launch.error, STDERR_FILENO) >= 0) {
    execve(launch.file, launch.argv, launch.environment);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(launch.report, &reason, sizeof reason);
  _exit(127);
}

/// Starts a process that executes `launch` or exits; returns its pid, or -1 with errno. It shares this
/// process's memory before the exec (vfork copies nothing, however large mtrun is), so no signal handler may
/// run in it. pthread_atfork handlers do not run either: a child that execs at once does not need them.
pid_t ForkAndExecute(const Launch& launch) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = vfork();
  if (child == 0) RunChild(launch);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return child;
}

absl::Status CannotExecute(int error, const std::string& file) {
  const absl::Status status = ErrnoStatus(error, absl::StrCat("execute ", file));
  return error == ENOEXEC ? absl::FailedPreconditionError(status.message()) : status;
}

}  // namespace

absl::StatusOr<Process> Process::Start(const ProcessSpec& spec) {
  MT_ASSIGN_OR_RETURN(Pipe output, MakeStream(spec.out_terminal, STDOUT_FILENO));
  MT_ASSIGN_OR_RETURN(Pipe error, MakeStream(spec.err_terminal, STDERR_FILENO));
  MT_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  std::vector<std::string> variables;
  for (const auto& [name, value] : spec.environment) variables.push_back(absl::StrCat(name, "=", value));
  const std::vector<char*> argv = ExecWords(spec.argv), environment = ExecWords(variables);
  const cpu_set_t cpus = SetOf(spec.cpus);
  unsigned long nodes[kNodeBits / (8 * sizeof(unsigned long))] = {};
  const bool prefers = spec.memory_node && static_cast<size_t>(*spec.memory_node) < kNodeBits;
  if (prefers)
    nodes[*spec.memory_node / (8 * sizeof(long))] |= 1UL << (*spec.memory_node % (8 * sizeof(long)));
  const Launch launch = {.file = spec.file.c_str(),
                         .argv = argv.data(),
                         .environment = environment.data(),
                         .input = spec.input,
                         .output = output.write.get(),
                         .error = error.write.get(),
                         .report = report.write.get(),
                         .parent = getpid(),
                         .cpus = spec.cpus.empty() ? nullptr : &cpus,
                         .preferred_node = prefers ? nodes : nullptr,
                         .kept = spec.kept.data(),
                         .kept_end = spec.kept.data() + spec.kept.size(),
                         .files = InheritedFileLimit()};
  Process process;
  process.pid_ = ForkAndExecute(launch);
  if (process.pid_ < 0) return ErrnoStatus(errno, absl::StrCat("fork a worker for ", spec.file));
  report.write.Reset();
  int reason = 0;
  ssize_t size = 0;
  do size = read(report.read.get(), &reason, sizeof reason);
  while (size < 0 && errno == EINTR);
  if (size == sizeof reason) return CannotExecute(reason, spec.file);
  process.output_ = std::move(output.read);
  process.error_ = std::move(error.read);
  return process;
}

absl::StatusOr<Process> Process::StartBy(
    const std::function<absl::StatusOr<pid_t>(int output, int error)>& start, const ProcessSpec& spec) {
  MT_ASSIGN_OR_RETURN(Pipe output, MakeStream(spec.out_terminal, STDOUT_FILENO));
  MT_ASSIGN_OR_RETURN(Pipe error, MakeStream(spec.err_terminal, STDERR_FILENO));
  Process process;
  MT_ASSIGN_OR_RETURN(process.pid_, start(output.write.get(), error.write.get()));
  process.output_ = std::move(output.read);
  process.error_ = std::move(error.read);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      error_(std::move(other.error_)) {}

Process::~Process() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  // A leader in an uninterruptible kernel state is left to the guardian, which has time to wait.
  AwaitExit(pid_, kReapPatience);
  waitpid(pid_, nullptr, WNOHANG);
}

std::optional<ExitStatus> Process::Poll() const {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  if (info.si_code == CLD_EXITED) return ExitStatus{info.si_status, 0};
  return ExitStatus{0, info.si_status};
}

void Process::Leave() { waitpid(std::exchange(pid_, -1), nullptr, WNOHANG); }

void Process::Signal(int signal) const {
  // The group does not exist between fork and setsid. Start waits for the exec, so this means that it failed.
  if (kill(-pid_, signal) != 0 && errno == ESRCH) kill(pid_, signal);
}

}  // namespace mtrun::launcher
