#include "launcher/workers/stack_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/child_exit.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/posix.h"
#include "launcher/workers/process_tree.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMaxProcesses = 32;                        // per worker
constexpr Duration kLook = std::chrono::milliseconds(100);  // interval at which a wait checks `ending`

std::string ContentOf(const std::string& path) {
  std::string text = ReadFile(path).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

/// Returns the environment without debuginfod: network symbols take long, and the user did not ask for them.
std::vector<char*> EnvironmentOfTools() {
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "DEBUGINFOD_URLS=")) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  return environment;
}

/// Runs the command and appends its output to `file`. Returns false if it fails, takes too long or `ending`
/// becomes true. The agent, which reaps all children, may take its status first.
bool RunInto(const std::string& file, const std::vector<std::string>& command,
             const std::atomic<bool>& ending) {
  const std::vector<char*> words = ExecWords(command);
  std::vector<char*> environment = EnvironmentOfTools();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t pid = -1;
  const bool spawned = posix_spawn(&pid, words[0], &actions, nullptr, words.data(), environment.data()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!spawned) return false;
  const TimePoint deadline = MonotonicNow() + StackDump::kToolPatience;
  bool in_time = false;
  while (!in_time && !ending && MonotonicNow() < deadline) in_time = AwaitExit(pid, kLook);
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  return in_time && (waitpid(pid, &status, 0) != pid || status == 0);
}

void WriteOne(const std::string& file, const StackTools& tools, int64_t pid,
              const std::atomic<bool>& ending) {
  if (ending) return;
  const std::string folder = absl::StrCat("/proc/", pid);
  std::string line = ContentOf(folder + "/cmdline");
  std::replace(line.begin(), line.end(), '\0', ' ');
  std::error_code error;
  const std::string executable = std::filesystem::read_symlink(folder + "/exe", error).string();
  const std::vector<std::string> command = StackCommand(tools, executable, pid);
  const auto append = [&](const std::string& text) {
    const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (fd.valid()) WriteAll(fd.get(), text).IgnoreError();
  };
  append(absl::StrCat("== process ", pid, ": ", line, "\n"));
  if (!command.empty() && RunInto(file, command, ending)) return append("\n");
  append(KernelStacks("", pid) + "\n");
}

std::string WriteAllOf(const std::string& folder, const std::map<std::string, int64_t>& pids,
                       const std::atomic<bool>& ending) {
  std::string time = WallClockText();
  std::replace_if(
      time.begin(), time.end(), [](char c) { return c == ' ' || c == ':'; }, '-');
  const std::string into = absl::StrCat(folder, "/stacks_", time);
  if (const absl::Status made = MakeFolders(into); !made.ok())
    return absl::StrCat("the stacks cannot be written: ", made.message());
  const char* const path = getenv("PATH");
  const StackTools tools = FindStackTools(path == nullptr ? "" : path);
  const std::vector<ProcessInfo> processes = ListProcesses();
  for (const auto& [name, pid] : pids) {
    const std::string file = absl::StrCat(into, "/", name, ".txt");
    WriteOne(file, tools, pid, ending);
    std::vector<ProcessInfo> below = DescendantsOf(static_cast<pid_t>(pid), processes);
    if (below.size() > kMaxProcesses) below.resize(kMaxProcesses);
    for (const ProcessInfo& process : below) WriteOne(file, tools, process.pid, ending);
  }
  return absl::StrCat(
      "the stacks of ", Counted(pids.size(), "worker"), " are in ", into,
      tools == StackTools{} ? " (kernel's view; install eu-stack, gdb or py-spy for more)" : "");
}

}  // namespace

StackTools FindStackTools(const std::string& path) {
  const auto find = [&](const char* name) -> std::string {
    for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      const std::string file = absl::StrCat(folder, "/", name);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
    return "";
  };
  return {find("py-spy"), find("eu-stack"), find("gdb")};
}

std::vector<std::string> StackCommand(const StackTools& tools, const std::string& executable, int64_t pid) {
  const std::string name = executable.substr(executable.rfind('/') + 1), id = absl::StrCat(pid);
  if (absl::StartsWith(name, "python") && !tools.py_spy.empty())
    return {tools.py_spy, "dump", "--native", "--pid", id};
  if (!tools.eu_stack.empty()) return {tools.eu_stack, "-p", id};
  if (!tools.gdb.empty()) return {tools.gdb, "-p", id, "-batch", "-nx", "-ex", "thread apply all backtrace"};
  return {};
}

std::string KernelStacks(const std::string& root, int64_t pid) {
  std::string text;
  std::error_code error;
  // A range-for would throw if the process exits during the loop.
  std::filesystem::directory_iterator thread(absl::StrCat(root, "/proc/", pid, "/task"), error), end;
  for (; !error && thread != end; thread.increment(error)) {
    const std::string folder = thread->path();
    const std::string stat = ContentOf(folder + "/stat");
    const size_t name_end = stat.rfind(')');
    const std::string state = name_end + 2 < stat.size() ? stat.substr(name_end + 2, 1) : "?";
    absl::StrAppend(&text, "thread ", thread->path().filename().string(), " \"", ContentOf(folder + "/comm"),
                    "\": state ", state);
    const std::string waits = ContentOf(folder + "/wchan");
    if (!waits.empty() && waits != "0") absl::StrAppend(&text, ", waits in ", waits);
    const std::string stack = ContentOf(folder + "/stack");
    absl::StrAppend(&text, "\n", stack, stack.empty() ? "" : "\n");
  }
  return text.empty() ? "it is gone\n" : text;
}

void StackDump::Write(const std::string& folder, std::map<std::string, int64_t> pids) {
  if (folder.empty())
    return log::Warning("no stacks are written: this node keeps no log folder (--log_dir /dev/null)");
  if (busy_) return log::Warning("stacks are already being written");
  if (pids.empty()) return log::Info("no stacks are written: no worker runs here now");
  busy_ = true;
  asio::post(pool_, [this, folder, pids = std::move(pids)] {
    const std::string said = WriteAllOf(folder, pids, ending_);
    asio::post(io_, [this, said] {
      busy_ = false;
      log::Info(said);
    });
  });
}

}  // namespace mtrun::launcher
