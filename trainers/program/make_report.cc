#include "trainers/program/make_report.h"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"

extern char** environ;

namespace mtrun::trainers {
namespace {

/// 0: it has done its work.
absl::StatusOr<int> RunQuietly(const std::string& program, const std::string& folder, Duration patience) {
  std::string name = program, quiet = "--quiet", run = folder;
  char* const argv[] = {name.data(), quiet.data(), run.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start ", program));
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{watch.get(), POLLIN, 0};
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
  if (watch.valid() && poll(&ended, 1, static_cast<int>(wait.count())) == 0) kill(pid, SIGKILL);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return ErrnoStatus(errno, absl::StrCat("wait for ", program));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string FindMtreport(const std::string& executable_folder) {
  // libexec/mtrun/trainer beside bin/mtreport, in a build as where it is installed.
  for (const char* const path : {"/../../bin/mtreport", "/mtreport"}) {
    const std::string found = executable_folder + path;
    if (access(found.c_str(), X_OK) == 0) return std::filesystem::path(found).lexically_normal();
  }
  return "";
}

void MakeReport(const std::string& model_folder, Duration patience) {
  const std::string program = FindMtreport(ExecutableFolder().value_or(""));
  if (program.empty()) {
    log::Info("no report.html: mtreport is not installed beside this program");
    return;
  }
  const absl::StatusOr<int> status = RunQuietly(program, model_folder, patience);
  if (!status.ok()) {
    log::Warning("no report.html: ", std::string(status.status().message()));
  } else if (*status != 0) {
    log::Warning("no report.html: mtreport ended with ", *status, "; mtreport ", model_folder,
                 " tries again");
  }
}

}  // namespace mtrun::trainers
