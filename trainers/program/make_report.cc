#include "trainers/program/make_report.h"

#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/posix.h"
#include "trainers/program/run_command.h"

namespace mtrun::trainers {

absl::StatusOr<int> RunReporter(const std::string& program, const std::string& model_folder, bool result_file,
                                Duration timeout) {
  std::vector<std::string> command = {program, "--quiet", model_folder};
  if (result_file) command.emplace_back("--result_file");
  return RunCommand(std::move(command), timeout);
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
