#include "trainers/program/make_report.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/child_exit.h"
#include "base/log.h"
#include "base/posix.h"

extern char** environ;

namespace mtrun::trainers {
absl::StatusOr<int> RunReporter(const std::string& program, const std::string& model_folder, bool result_file,
                                Duration timeout) {
  std::string name = program, quiet = "--quiet", run = model_folder, result = "--result_file";
  char* const argv[] = {name.data(), quiet.data(), run.data(), result_file ? result.data() : nullptr,
                        nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start ", program));
  if (!AwaitExit(pid, timeout)) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", program));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string FindMtreport(const std::string& executable_folder) {
  // The trainer is libexec/mtrun/trainer beside bin/mtreport, both in a build and in an installation.
  for (const char* const path : {"/../../bin/mtreport", "/mtreport"}) {
    const std::string found = executable_folder + path;
    if (access(found.c_str(), X_OK) == 0) return std::filesystem::path(found).lexically_normal();
  }
  return "";
}

void MakeReport(const std::string& model_folder, bool result_file, Duration timeout) {
  const std::string program = FindMtreport(ExecutableFolder().value_or(""));
  if (program.empty()) {
    log::Info("no report.html: mtreport is not installed next to this program");
    return;
  }
  const absl::StatusOr<int> status = RunReporter(program, model_folder, result_file, timeout);
  if (!status.ok()) {
    log::Warning("no report.html: ", std::string(status.status().message()));
  } else if (*status != 0) {
    log::Warning("no report.html: mtreport exited with ", *status, "; run `mtreport ", model_folder,
                 "` to try again");
  }
}

}  // namespace mtrun::trainers
