#include "rendezvous/token.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
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
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

class TokenTest : public ::testing::Test {
 protected:
  void SetUp() override { home_ = *MakeTemporaryFolder("token-test-"); }
  void TearDown() override { std::filesystem::remove_all(home_); }
  absl::StatusOr<std::string> Load(const std::string& path = "") {
    return LoadToken(path, {{"HOME", home_}});
  }
  void Write(const std::string& name, const std::string& text, mode_t mode) {
    ASSERT_TRUE(WriteFileAtomically(home_ + "/" + name, text).ok());
    ASSERT_EQ(chmod((home_ + "/" + name).c_str(), mode), 0);
  }
  std::string home_;
};

TEST_F(TokenTest, IsMadeAtFirstUseForItsOwnerOnly) {
  const auto token = Load();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->size(), 64u);
  struct stat status {};
  ASSERT_EQ(stat((home_ + "/.mtrun/token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(Load().value_or(""), *token);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_ + "/.mtrun"),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(TokenTest, EnvironmentGoesFirst) {
  const std::string token(40, 'x');
  EXPECT_EQ(LoadToken("", {{"HOME", home_}, {"MTRUN_TOKEN", " " + token + "\n"}}).value_or(""), token);
  EXPECT_FALSE(std::filesystem::exists(home_ + "/.mtrun"));
}

TEST_F(TokenTest, ShortOnesAreRefusedWithTheFix) {
  const auto token = LoadToken("", {{"MTRUN_TOKEN", "secret"}});
  EXPECT_TRUE(absl::IsInvalidArgument(token.status()));
  EXPECT_THAT(std::string(token.status().message()), HasSubstr("openssl rand"));
  EXPECT_FALSE(DeriveIdentity("secret").ok());
}

TEST_F(TokenTest, AFileThatOthersMayReadIsRefused) {
  Write("open", std::string(64, 'a'), 0644);
  const auto token = Load(home_ + "/open");
  EXPECT_TRUE(absl::IsPermissionDenied(token.status()));
  EXPECT_THAT(std::string(token.status().message()), HasSubstr("chmod 600"));
}

TEST_F(TokenTest, AGivenFileMustExist) {
  EXPECT_THAT(std::string(Load(home_ + "/nowhere").status().message()), HasSubstr("nowhere"));
  EXPECT_FALSE(std::filesystem::exists(home_ + "/nowhere"));
}

/// From now on this process sees file systems without hard links: the kernel answers link(2) as it does on
/// vfat, and the rest is as it is.
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

TEST_F(TokenTest, IsMadeWhereFilesHaveNoHardLinks) {
  constexpr int kAgents = 8;  // that start at the same moment
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
  EXPECT_EQ(tokens.begin()->size(), 64u);
  struct stat status {};
  ASSERT_EQ(stat((home_ + "/.mtrun/token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_ + "/.mtrun"),
                          std::filesystem::directory_iterator()),
            1);
}

/// Without hard links the file is there a moment before its text is.
TEST_F(TokenTest, IsWaitedForWhileAnotherAgentMakesIt) {
  std::filesystem::create_directory(home_ + "/.mtrun");
  Write(".mtrun/token", "", 0600);
  const std::string token(64, 'a');
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream(home_ + "/.mtrun/token") << token << std::endl;
  });
  EXPECT_EQ(Load().value_or(""), token);
  writer.join();
}

TEST_F(TokenTest, AFileThatStaysEmptyIsRefusedWithTheFix) {
  std::filesystem::create_directory(home_ + "/.mtrun");
  Write(".mtrun/token", "", 0600);
  EXPECT_THAT(std::string(Load().status().message()), HasSubstr("remove it"));
}

using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;

CertificatePtr Parse(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free};
}

bool Verifies(const std::string& leaf, const std::string& root) {
  const CertificatePtr leaf_certificate = Parse(leaf), root_certificate = Parse(root);
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(), X509_STORE_free);
  X509_STORE_add_cert(store.get(), root_certificate.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(X509_STORE_CTX_new(),
                                                                                X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), leaf_certificate.get(), nullptr);
  return X509_verify_cert(context.get()) == 1;
}

TEST(DeriveIdentity, TwoEndsWithOneTokenTrustEachOtherAndNobodyElse) {
  const auto a = DeriveIdentity(std::string(64, 'a')), again = DeriveIdentity(std::string(64, 'a'));
  const auto b = DeriveIdentity(std::string(64, 'b'));
  ASSERT_TRUE(a.ok() && again.ok() && b.ok()) << a.status();
  EXPECT_EQ(a->private_key, again->private_key);
  EXPECT_NE(a->private_key, b->private_key);
  EXPECT_TRUE(Verifies(again->certificate, a->ca_certificate));
  EXPECT_FALSE(Verifies(b->certificate, a->ca_certificate));
  EXPECT_EQ(X509_check_host(Parse(a->certificate).get(), kTlsName, 0, 0, nullptr), 1);
}

}  // namespace
}  // namespace mtrun::rendezvous
