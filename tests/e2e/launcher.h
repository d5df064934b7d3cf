// Shared by the end-to-end tests of mtrun: how to start it and how to read its workers' output.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"
#include "tests/support/program.h"
#include "tests/support/token.h"

namespace mtrun::e2e {

using support::Program;
using support::Seconds;

/// "At once", with a margin for a loaded machine and sanitizers.
inline constexpr Seconds kSoon{30};

/// Returns the concatenation of two lists.
inline std::vector<std::string> Words(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// Marks every process of the test; after the test no marked process may be alive.
class LauncherTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(mark_.WaitForNone(kSoon)) << "processes remain"; }

  static std::string Mtrun() { return support::BinaryFolder() + "/mtrun"; }

  virtual std::vector<std::string> Command(const std::vector<std::string>& args) const {
    return Words({Mtrun()}, args);
  }

  /// Logs go to the test's folder; settings of the surrounding shell have no effect.
  support::Overlay Environment() const {
    support::Overlay overlay = mark_.overlay();
    overlay["TMPDIR"] = overlay["XDG_STATE_HOME"] = folder_.path();
    overlay[kTokenVariable] = support::kToken;
    for (const char* name :
         {"OMP_NUM_THREADS", "RANK", "WORLD_SIZE", "LOGLEVEL", "VIRTUAL_ENV", "PYTHON_EXEC",
          "MTRUN_TRAINER_PATH", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "TORCHELASTIC_ERROR_FILE",
          "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "TORCHELASTIC_HEALTH_CHECK_PORT",
          "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE"}) {
      overlay[name] = std::nullopt;
    }
    return overlay;
  }

  /// Starts one agent of a job of `nnodes` at `endpoint_`.
  std::unique_ptr<Program> Agent(const std::string& nnodes, const std::vector<std::string>& more,
                                 const support::Overlay& overlay = {}) const {
    const std::vector<std::string> args = Words(
        {"--nnodes", nnodes, "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint_, "--rdzv_id", "job"},
        more);
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    return std::make_unique<Program>(Command(args), environment);
  }

  /// Returns the folder of the only run under --log_dir `name` of the test's folder.
  std::string RunFolder(const std::string& name) const {
    std::string run;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File(name))) run = entry.path();
    return run;
  }

  /// Writes a shell script to the test's folder.
  std::string Script(const std::string& name, const std::string& text) const {
    const std::string path = folder_.File(name), whole = "#!/bin/sh\n" + text;
    // A shell that is running it continues to read the file, so it must not be rewritten.
    if (support::ReadText(path) != whole) support::WriteText(path, whole, true);
    return path;
  }

  /// Prints "rank R of W ..." and makes a folder of that name, which fails on a second start.
  std::string Touch() const {
    return Script("touch.sh", absl::StrCat("mkdir ", folder_.path(),
                                           "/ran_$RANK || exit 1\necho rank $RANK of "
                                           "$WORLD_SIZE port $MASTER_PORT\n"));
  }
  /// Returns "ran_R" for each rank that ran.
  std::vector<std::string> Ran() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ran_")) names.push_back(name);
    }
    return names;
  }

  /// Returns a process's first child: mtrun's is the guardian, the guardian's the agent (see guardian.h).
  static pid_t ChildOf(pid_t pid) {
    return std::atoi(support::ReadText(absl::StrCat("/proc/", pid, "/task/", pid, "/children")).c_str());
  }

  static bool HavePython() { return Program({"python3", "-c", "pass"}).Wait() == 0; }

  const support::TemporaryFolder folder_;
  const support::Mark mark_;
  const std::string endpoint_ = absl::StrCat("127.0.0.1:", support::FreePort());
};

/// Returns the lines that contain `text`, from `text` on.
inline std::vector<std::string> From(const std::vector<std::string>& lines, const std::string& text) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (const size_t at = line.find(text); at != std::string::npos) found.push_back(line.substr(at));
  }
  return found;
}

}  // namespace mtrun::e2e
