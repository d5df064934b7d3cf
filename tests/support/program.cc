#include "tests/support/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/worker_env.h"

namespace mtrun::support {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point Until(Seconds patience) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  MT_CHECK(value != nullptr) << name << " is not set; run the test through ctest";
  return value;
}

/// For conditions without an event.
template <typename Condition>
bool Poll(Seconds patience, Condition condition) {
  for (const auto end = Until(patience);;) {
    if (condition()) return true;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

std::vector<std::string> Joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string BinaryFolder() { return Variable("MT_BIN"); }
std::string TestFile(const std::string& name) { return Variable("MT_SOURCE_DIR") + "/tests/" + name; }

Program::Program(const std::vector<std::string>& argv, const Overlay& overlay, const std::string& folder) {
  stop_reading_ = eventfd(0, EFD_CLOEXEC);
  MT_CHECK(stop_reading_ >= 0);
  int pipes[2][2];
  for (auto& ends : pipes) MT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  EnvironmentMap environment = CurrentEnvironment();
  for (const auto& [name, value] : overlay) {
    if (value) {
      environment[name] = *value;
    } else {
      environment.erase(name);
    }
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> words, env;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : variables) env.push_back(const_cast<char*>(variable.c_str()));
  words.push_back(nullptr);
  env.push_back(nullptr);
  pid_ = _Fork();
  if (pid_ == 0) {
    // A separate process group, like a shell's job; a test that dies takes it along.
    setpgid(0, 0);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    execvpe(words[0], words.data(), env.data());
    _exit(127);
  }
  MT_CHECK(pid_ > 0);
  for (int which : {0, 1}) {
    close(pipes[which][1]);
    readers_[which] = std::thread([this, which, fd = pipes[which][0]] { Read(which, fd); });
  }
}

Program::~Program() {
  if (!status_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    // A child that outlives it could hold its output open forever.
    MT_CHECK(eventfd_write(stop_reading_, 1) == 0);
  }
  for (std::thread& reader : readers_) reader.join();
  close(stop_reading_);
}

void Program::Read(int which, int fd) {
  std::string pending;
  char bytes[4096];
  while (true) {
    pollfd events[] = {{fd, POLLIN, 0}, {stop_reading_, POLLIN, 0}};
    if (poll(events, 2, -1) > 0 && events[0].revents == 0) break;
    const ssize_t size = read(fd, bytes, sizeof bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    pending.append(bytes, static_cast<size_t>(size));
    const std::lock_guard lock(mu_);
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      lines_.emplace_back(which, pending.substr(0, end));
    }
    changed_.notify_all();
  }
  close(fd);
  const std::lock_guard lock(mu_);
  if (!pending.empty()) lines_.emplace_back(which, pending);
  --open_streams_;
  changed_.notify_all();
}

void Program::Signal(int signal) const { kill(pid_, signal); }

std::optional<std::string> Program::WaitForLine(const std::string& text, Seconds patience) {
  if (!WaitForLines(text, 1, patience)) return std::nullopt;
  const std::lock_guard lock(mu_);
  for (const auto& [which, line] : lines_) {
    if (absl::StrContains(line, text)) return line;
  }
  return std::nullopt;
}

bool Program::WaitForLines(const std::string& text, size_t count, Seconds patience) {
  std::unique_lock lock(mu_);
  const auto enough = [&] {
    size_t found = 0;
    for (const auto& [which, line] : lines_) found += absl::StrContains(line, text) ? 1 : 0;
    return found >= count;
  };
  changed_.wait_until(lock, Until(patience), [&] { return enough() || open_streams_ == 0; });
  return enough();
}

std::optional<int> Program::Wait(Seconds patience) {
  if (status_) return status_;
  const auto end = Until(patience);
  const bool ended = Poll(patience, [&] {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  });
  if (!ended) return std::nullopt;
  {
    // A child that outlives it could hold the pipes open; then the output is as complete as possible.
    std::unique_lock lock(mu_);
    changed_.wait_until(lock, std::min(end, Until(Seconds(2))), [&] { return open_streams_ == 0; });
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::vector<std::string> Program::OutLines() {
  const std::lock_guard lock(mu_);
  std::vector<std::string> lines;
  for (const auto& [which, line] : lines_) {
    if (which == 0) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> Program::ErrLines() {
  const std::lock_guard lock(mu_);
  std::vector<std::string> lines;
  for (const auto& [which, line] : lines_) {
    if (which == 1) lines.push_back(line);
  }
  return lines;
}

std::string Program::Text() {
  const std::lock_guard lock(mu_);
  std::string text;
  for (const auto& [which, line] : lines_) absl::StrAppend(&text, line, "\n");
  return text;
}

Mark::Mark() : value_(absl::StrCat(getpid(), "-", absl::Hex(RandomBits()))) {}

Mark::~Mark() {
  for (const pid_t pid : Alive()) kill(pid, SIGKILL);
}

std::vector<pid_t> Mark::Alive() const {
  std::vector<pid_t> found;
  const std::string wanted = absl::StrCat(kVariable, "=", value_);
  DIR* folder = opendir("/proc");
  MT_CHECK(folder != nullptr);
  while (const dirent* entry = readdir(folder)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0 || pid == getpid()) continue;
    // A zombie's environment reads as empty.
    if (absl::StrContains(ReadText(absl::StrCat("/proc/", pid, "/environ")), wanted)) found.push_back(pid);
  }
  closedir(folder);
  return found;
}

bool Mark::WaitForAlive(size_t count, Seconds patience) const {
  return Poll(patience, [&] { return Alive().size() >= count; });
}

bool Mark::WaitForNone(Seconds patience) const {
  return Poll(patience, [&] { return Alive().empty(); });
}

TemporaryFolder::TemporaryFolder() {
  // Its name is part of what programs print, so it is of letters that together are in no word that a test waits for:
  // mkdtemp has made "mtrun_test_Qu6yUP" for a test of "UP".
  constexpr std::string_view kLetters = "jqvxz";
  const char* base = std::getenv("TMPDIR");
  std::random_device random;
  for (bool made = false; !made;) {
    path_ = absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/mtrun_test_");
    for (int i = 0; i < 12; ++i) path_ += kLetters[random() % kLetters.size()];
    made = mkdir(path_.c_str(), 0700) == 0;
    MT_CHECK(made || errno == EEXIST) << path_ << ": " << strerror(errno);
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text, bool executable) {
  std::ofstream(path) << text;
  chmod(path.c_str(), executable ? 0755 : 0644);
}

}  // namespace mtrun::support
