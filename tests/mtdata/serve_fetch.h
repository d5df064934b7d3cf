// Shared code of tests of mtdata's server, fetcher and cache as real processes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datasets/cache/cache_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/port.h"
#include "tests/support/program.h"
#include "tests/support/token.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::mtdata {

namespace fs = std::filesystem;
using support::Program;

/// A folder with one packed set, "set", and an empty cache.
class ServeFetch : public testing::Test {
 protected:
  ServeFetch() : port_(support::FreePort()) {
    fs::create_directories(folder_.File("root"));
    trainers::testing::WritePackedSet(folder_.File("root"), "set", {.train = 400, .test = 50},
                                      trainers::testing::VariedPixel);
  }

  support::Overlay Environment() const {
    support::Overlay environment = mark_.overlay();
    environment["MTRUN_TOKEN"] = support::kToken;
    return environment;
  }
  std::unique_ptr<Program> Serve(const std::vector<std::string>& more = {},
                                 const support::Overlay& overlay = {}) {
    std::vector<std::string> command = {support::BinaryFolder() + "/mtdata", "serve", folder_.File("root"),
                                        "--listen", absl::StrCat("127.0.0.1:", port_)};
    command.insert(command.end(), more.begin(), more.end());
    support::Overlay environment = Environment();
    for (const auto& [variable, value] : overlay) environment[variable] = value;
    auto server = std::make_unique<Program>(command, environment);
    EXPECT_TRUE(server->WaitForLine("use one with")) << server->Text();
    return server;
  }
  std::unique_ptr<Program> Fetch(const std::string& name = "set", const support::Overlay& overlay = {},
                                 const std::string& scheme = "https",
                                 const std::vector<std::string>& more = {}) {
    support::Overlay environment = Environment();
    for (const auto& [variable, value] : overlay) environment[variable] = value;
    std::vector<std::string> command = {support::BinaryFolder() + "/mtdata", "fetch",
                                        absl::StrCat(scheme, "://127.0.0.1:", port_, "/", name), "--cache",
                                        folder_.File("cache")};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<Program>(command, environment);
  }
  void ExpectCopy(Program& fetch) {
    ASSERT_EQ(fetch.Wait(), 0) << fetch.Text();
    const std::string copy = fetch.OutLines().at(0);
    for (const auto& entry : fs::recursive_directory_iterator(folder_.File("root/set"))) {
      if (!entry.is_regular_file()) continue;
      const std::string file = fs::relative(entry.path(), folder_.File("root/set"));
      EXPECT_EQ(support::ReadText(copy + "/" + file), support::ReadText(entry.path())) << file;
    }
  }
  std::string Shard() const { return folder_.File("root/set/train/shard_00000.safetensors"); }
  std::string CachedShard() const {
    for (const datasets::CachedFile& file : datasets::CachedFiles(folder_.File("cache"))) {
      if (file.path.find("/train/shard_00000.safetensors") != std::string::npos) return file.path;
    }
    return "";
  }

  std::vector<pid_t> Fetchers() const {
    std::vector<pid_t> fetchers;
    for (const pid_t pid : mark_.Alive()) {
      const std::string line = support::ReadText(absl::StrCat("/proc/", pid, "/cmdline"));
      if (line.find("--node") != std::string::npos) fetchers.push_back(pid);
    }
    return fetchers;
  }
  static size_t CountOf(Program& program, const std::string& text) {
    size_t count = 0;
    for (const std::string& line : program.ErrLines()) count += line.find(text) != std::string::npos ? 1 : 0;
    return count;
  }

  const int port_;
  support::Mark mark_;
  support::TemporaryFolder folder_;
};

}  // namespace mtrun::mtdata
