// mtrun --doctor from a user's view: with services that answer, refuse, or do not exist.
#include <sys/stat.h>

#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DoctorTest : public LauncherTest {
 protected:
  std::string Line(const std::string& subject) const {
    for (const std::string& line : lines_)
      if (line.substr(6, subject.size() + 1) == subject + " ") return line;
    return "";
  }
  /// Returns its exit status.
  int Ask(const std::vector<std::string>& more, const support::Overlay& overlay = {}) {
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    Program mtrun(Command(Words({"--doctor"}, more)), environment);
    const int status = mtrun.Wait().value_or(-1);
    lines_ = mtrun.OutLines();
    text_ = mtrun.Text();
    return status;
  }
  std::unique_ptr<Program> StartService() const {
    auto service = std::make_unique<Program>(
        std::vector<std::string>{support::BinaryFolder() + "/mtrdzv", "--endpoint", endpoint_},
        Environment());
    EXPECT_TRUE(service->WaitForLine("serving")) << service->Text();
    return service;
  }

  std::vector<std::string> lines_;
  std::string text_;
};

TEST_F(DoctorTest, EachSubjectHasALine) {
  Ask({});
  for (const char* subject :
       {"ports", "clock", "token", "name", "interfaces", "open files", "processes", "locked memory",
        "shared memory", "logs and state", "runs", "GPUs", "Python", "trainers"})
    EXPECT_NE(Line(subject), "") << subject << " in\n" << text_;
  for (const std::string& line : lines_)
    EXPECT_TRUE(line.starts_with("ok    ") || line.starts_with("warn  ") || line.starts_with("FAIL  "))
        << line;
  EXPECT_THAT(Line("token"), HasSubstr("from MTRUN_TOKEN"));
  EXPECT_THAT(Line("logs and state"), HasSubstr(folder_.File("mtrun has")));
}

TEST_F(DoctorTest, ReportsAServiceThatAnswers) {
  const auto service = StartService();
  Ask({endpoint_});
  EXPECT_THAT(Line("endpoint"), AllOf(HasSubstr("ok"), HasSubstr(endpoint_ + " answers, round trip")));
  EXPECT_THAT(Line("service"),
              AllOf(HasSubstr("ok"), HasSubstr("TLS, and the token matches"), HasSubstr("0 jobs")));
  EXPECT_THAT(Line("its clock"), HasSubstr("ok"));
  EXPECT_THAT(Line("path MTU"), HasSubstr("packets of that size arrive"));
  EXPECT_THAT(Line("bandwidth"), AllOf(HasSubstr("at least "), HasSubstr("bit/s to the service")));
}

TEST_F(DoctorTest, ReportsAServiceThatRefuses) {
  const auto service = StartService();
  EXPECT_EQ(Ask({endpoint_}, {{kTokenVariable, support::kOtherToken}}), 1);
  EXPECT_THAT(Line("service"), AllOf(HasSubstr("FAIL"), HasSubstr("has another token")));
  EXPECT_EQ(Ask({endpoint_, "--insecure"}), 1);
  EXPECT_THAT(Line("service"), AllOf(HasSubstr("FAIL"), HasSubstr("expects TLS")));
  Ask({endpoint_}, {{kTokenVariable, std::nullopt}, {"HOME", folder_.path()}});
  EXPECT_THAT(Line("service"), HasSubstr("not asked: there is no token to show"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File(".mtrun")));
  EXPECT_EQ(Ask({}, {{kTokenVariable, std::nullopt}, {"HOME", "/proc/none"}}), 1);
  EXPECT_THAT(Line("token"), AllOf(HasSubstr("FAIL"), HasSubstr("make /proc/none/.mtrun: ")));
}

TEST_F(DoctorTest, ReportsAnUnusedEndpoint) {
  Ask({endpoint_});
  EXPECT_THAT(Line("endpoint"), AllOf(HasSubstr("ok"), HasSubstr("an mtrun here would host it")));
  EXPECT_EQ(Line("service"), "");
  EXPECT_EQ(Ask({"no-such-host.invalid"}), 1);
  EXPECT_THAT(Line("endpoint"), AllOf(HasSubstr("FAIL"), HasSubstr("the name does not resolve")));
}

TEST_F(DoctorTest, ReportsLocalProblems) {
  const std::string token = folder_.File("token");
  support::WriteText(token, support::kToken);
  chmod(token.c_str(), 0644);
  EXPECT_EQ(Ask({"--token_file", token, "--local_addr", "eht0", "--log_dir", "/proc/no"}), 1);
  EXPECT_THAT(Line("token"), AllOf(HasSubstr("FAIL"), HasSubstr("chmod 600 " + token)));
  EXPECT_THAT(Line("--local_addr"), AllOf(HasSubstr("FAIL"), HasSubstr("\"eht0\""), HasSubstr("lo (")));
  EXPECT_THAT(Line("log folder"), AllOf(HasSubstr("FAIL"), HasSubstr("/dev/null for no files")));
}

TEST_F(DoctorTest, LowLimitsDoNotStopIt) {
  Program mtrun({"sh", "-c", "ulimit -n 40; exec \"$0\" --doctor " + endpoint_, Mtrun()}, Environment());
  EXPECT_EQ(mtrun.Wait(), 1) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("FAIL  open files      mtrun may open 40, each worker 40"));
}

class DoctorNetworkTest : public NetworkTest {
 protected:
  DoctorNetworkTest() : NetworkTest(2) {}
  std::string PathMtuFrom(int node) const {
    Program mtrun(network_->On(node, {Mtrun(), "--doctor", endpoints_[0], "--insecure"}), Environment());
    mtrun.Wait();
    const auto line = mtrun.WaitForLine("path MTU", Seconds(0));
    return line.value_or(mtrun.Text());
  }
};

TEST_F(DoctorNetworkTest, LostPacketsAreDetected) {
  const auto service = StartService();
  EXPECT_THAT(PathMtuFrom(1), HasSubstr("ok    path MTU        1500 bytes, and packets of that size arrive"));
  Program larger(network_->On(1, {"ip", "link", "set", "eth0", "mtu", "9000"}));  // the switch has 1500
  ASSERT_EQ(larger.Wait(), 0) << larger.Text();
  EXPECT_THAT(PathMtuFrom(1), AllOf(HasSubstr("FAIL"), HasSubstr("packets of 9000 bytes get lost"),
                                    HasSubstr("give eth0 a smaller MTU")));
}

}  // namespace
}  // namespace mtrun::e2e
