#include "base/token.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"
#include "tests/support/sync_log.h"

namespace mtrun {
namespace {

using support::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenTest : public ::testing::Test {
 protected:
  void SetUp() override { home_ = *MakeTemporaryFolder("token-test-"); }
  void TearDown() override { std::filesystem::remove_all(home_); }
  absl::StatusOr<std::string> Load(const std::string& path = "") {
    return LoadToken({.file = path}, MissingToken::kMake, {{"HOME", home_}});
  }
  void Write(const std::string& name, const std::string& text, mode_t mode) {
    ASSERT_TRUE(WriteFileAtomically(home_ + "/" + name, text).ok());
    ASSERT_EQ(chmod((home_ + "/" + name).c_str(), mode), 0);
  }
  std::string home_;
};

TEST_F(TokenTest, IsCreatedAtFirstUseForItsOwnerOnly) {
  const auto token = Load();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(CheckToken(*token).ok());
  struct stat status {};
  ASSERT_EQ(stat((home_ + "/.mtrun/token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((home_ + "/.mtrun").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_EQ(Load().value_or(""), *token);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_ + "/.mtrun"),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(TokenTest, IsOnTheDiskBeforeItHasItsName) {
  support::SyncLog log(home_);
  ASSERT_TRUE(Load().ok());
  EXPECT_THAT(log.Take(), ElementsAre(StartsWith(".mtrun/token.")));
}

TEST_F(TokenTest, EnvironmentTakesPrecedence) {
  const std::string token = MakeToken();
  const EnvironmentMap environment = {{"HOME", home_}, {"MTRUN_TOKEN", " " + token + "\n"}};
  EXPECT_EQ(LoadToken({}, MissingToken::kMake, environment).value_or(""), token);
  EXPECT_FALSE(std::filesystem::exists(home_ + "/.mtrun"));
}

TEST(Token, EachHas256RandomBits) {
  const std::string token = MakeToken();
  EXPECT_EQ(token.substr(0, 7), "mtrun1-");
  EXPECT_EQ(token.size(), 7u + 64u);
  EXPECT_NE(MakeToken(), token);
  EXPECT_TRUE(CheckToken(token).ok());
}

TEST_F(TokenTest, GuessableTokenIsRefusedWithAdvice) {
  const std::string made = MakeToken();
  for (const std::string& text :
       {std::string("secret"), std::string(32, 'a'), std::string(64, 'a'), made.substr(7), made.substr(0, 70),
        made + "0", "mtrun1-" + std::string(64, 'A'), "mtrun1-" + std::string(63, 'a') + "g",
        "mtrun2-" + std::string(64, 'a'), std::string(" \n")}) {
    EXPECT_THAT(LoadToken({}, MissingToken::kRefuse, {{"HOME", home_}, {"MTRUN_TOKEN", text}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("MTRUN_TOKEN: this token was not created by mtrun"),
                               HasSubstr("mtrun --new_token"))))
        << text;
    Write("guessable", text, 0600);
    EXPECT_THAT(
        Load(home_ + "/guessable"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("token file " + home_ + "/guessable: this token was not created by mtrun")))
        << text;
  }
  EXPECT_THAT(LoadToken({}, MissingToken::kRefuse, {{"HOME", home_}, {"MTRUN_TOKEN", ""}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no token: there is no " + home_)))
      << "as if not set";
}

TEST(Token, WeakTokenIsAcceptedIfAllowed) {
  const auto load = [](const std::string& text) {
    return LoadToken({.weak = true}, MissingToken::kRefuse, {{"MTRUN_TOKEN", text}});
  };
  EXPECT_TRUE(load(std::string(32, 'a')).ok());
  EXPECT_TRUE(load(MakeToken()).ok());
  EXPECT_THAT(load(std::string(31, 'a')), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("has 31 characters; at least 32 are needed")));
}

TEST_F(TokenTest, RequestCreatesNoToken) {
  const auto token = LoadToken({}, MissingToken::kRefuse, {{"HOME", home_}});
  EXPECT_TRUE(absl::IsNotFound(token.status()));
  EXPECT_THAT(std::string(token.status().message()),
              AllOf(HasSubstr("MTRUN_TOKEN"), HasSubstr("--token_file")));
  EXPECT_FALSE(std::filesystem::exists(home_ + "/.mtrun"));
}

/// A container's home may be "/", or may not exist.
TEST_F(TokenTest, UnwritableHomeListsAlternatives) {
  Write("file", "", 0600);
  const auto token = LoadToken({}, MissingToken::kMake, {{"HOME", home_ + "/file"}});
  EXPECT_THAT(std::string(token.status().message()),
              AllOf(HasSubstr("MTRUN_TOKEN"), HasSubstr("--token_file")));
  // A folder cannot be created there, even by root.
  const auto forbidden = LoadToken({}, MissingToken::kMake, {{"HOME", "/sys"}});
  EXPECT_THAT(std::string(forbidden.status().message()),
              AllOf(HasSubstr("/sys/.mtrun"), HasSubstr("MTRUN_TOKEN"), HasSubstr("--new_token")));
}

TEST_F(TokenTest, FileReadableByOthersIsRefused) {
  Write("open", MakeToken(), 0644);
  const auto token = Load(home_ + "/open");
  EXPECT_TRUE(absl::IsPermissionDenied(token.status()));
  EXPECT_THAT(std::string(token.status().message()), HasSubstr("chmod 600"));
}

/// Kubelet mounts a Secret like this for a user other than root.
TEST_F(TokenTest, RootsFileCanBeGroupReadable) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string token = MakeToken();
  for (const mode_t mode : {0400u, 0440u, 0640u}) {
    Write("secret", token, mode);
    EXPECT_EQ(Load(home_ + "/secret").value_or(""), token) << mode;
  }
  for (const mode_t mode : {0444u, 0460u, 0441u}) {
    Write("secret", token, mode);
    EXPECT_TRUE(absl::IsPermissionDenied(Load(home_ + "/secret").status())) << mode;
  }
  Write("secret", token, 0440);
  ASSERT_EQ(chown((home_ + "/secret").c_str(), 65534, 65534), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Load(home_ + "/secret").status())) << "another user's";
}

/// Lines that can be copied into the manifest.
constexpr char kPatch[] =
    "  env:\n"
    "  - name: MTRUN_TOKEN\n"
    "    valueFrom: {secretKeyRef: {name: mtrun-token, key: token}}";

TEST_F(TokenTest, PodCreatesNoTokenThatOtherPodsLack) {
  EnvironmentMap environment = {{"HOME", home_}, {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
  const auto refused = LoadToken({}, MissingToken::kMakeForNodes, environment);
  EXPECT_TRUE(absl::IsNotFound(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("kubectl create secret generic mtrun-token "),
                    HasSubstr("to the container of every pod"), EndsWith(kPatch)));
  EXPECT_FALSE(std::filesystem::exists(home_ + "/.mtrun"));

  environment["PET_MASTER_ADDR"] = "train-master-0";
  EXPECT_THAT(std::string(LoadToken({}, MissingToken::kMakeForNodes, environment).status().message()),
              AllOf(HasSubstr("in each of spec.pytorchReplicaSpecs (Master, Worker)"), EndsWith(kPatch)));

  // No token has to be given for a single pod, or if the pods share a home.
  const auto made = LoadToken({}, MissingToken::kMake, environment);
  EXPECT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(LoadToken({}, MissingToken::kMakeForNodes, environment).value_or(""), *made);
}

TEST_F(TokenTest, TokenIsCreatedForSeveralNodesOutsideAPod) {
  EXPECT_TRUE(LoadToken({}, MissingToken::kMakeForNodes, {{"HOME", home_}}).ok());
}

TEST_F(TokenTest, GivenFileMustExist) {
  EXPECT_THAT(std::string(Load(home_ + "/nowhere").status().message()), HasSubstr("nowhere"));
  EXPECT_FALSE(std::filesystem::exists(home_ + "/nowhere"));
}

/// Makes file systems look as if they had no hard links: link(2) fails as on vfat, all else works.
bool DenyLinks() {
  const auto deny = [](unsigned call) {
    return std::array<sock_filter, 2>{
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
  };
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  std::vector<unsigned> calls = {__NR_linkat};
#ifdef __NR_link
  calls.push_back(__NR_link);
#endif
  for (const unsigned call : calls) {
    for (const sock_filter& instruction : deny(call)) filter.push_back(instruction);
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 && link("/", "/nowhere") == -1 &&
         errno == EPERM;
}

TEST_F(TokenTest, IsCreatedOnFileSystemsWithoutHardLinks) {
  constexpr int kAgents = 8;  // started at the same moment
  std::vector<pid_t> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(fork());
    if (agents.back() != 0) continue;
    if (!DenyLinks()) _exit(2);
    const auto token = Load();
    if (!token.ok()) absl::FPrintF(stderr, "%s\n", token.status().ToString());
    const auto written = WriteFileAtomically(absl::StrCat(home_, "/agent", i), token.value_or(""));
    _exit(token.ok() && written.ok() ? 0 : 1);
  }
  std::set<std::string> tokens;
  for (int i = 0; i < kAgents; ++i) {
    int status = 0;
    ASSERT_EQ(waitpid(agents[static_cast<size_t>(i)], &status, 0), agents[static_cast<size_t>(i)]);
    EXPECT_EQ(status, 0);
    tokens.insert(ReadFile(absl::StrCat(home_, "/agent", i)).value_or("none"));
  }
  EXPECT_EQ(tokens, std::set<std::string>{Load().value_or("")});
  EXPECT_TRUE(CheckToken(*tokens.begin()).ok());
  struct stat status {};
  ASSERT_EQ(stat((home_ + "/.mtrun/token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_ + "/.mtrun"),
                          std::filesystem::directory_iterator()),
            1);
}

/// If there are no hard links, the file exists for a moment before it has its text.
TEST_F(TokenTest, IsAwaitedWhileAnotherAgentCreatesIt) {
  std::filesystem::create_directory(home_ + "/.mtrun");
  Write(".mtrun/token", "", 0600);
  const std::string token = MakeToken();
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream(home_ + "/.mtrun/token") << token << std::endl;
  });
  EXPECT_EQ(Load().value_or(""), token);
  writer.join();
}

TEST_F(TokenTest, FileThatStaysEmptyIsRefusedWithAdvice) {
  std::filesystem::create_directory(home_ + "/.mtrun");
  Write(".mtrun/token", "", 0600);
  EXPECT_THAT(std::string(Load().status().message()), HasSubstr("remove it"));
}

}  // namespace
}  // namespace mtrun
