// One endpoint, hosted by an mtrun: the effect on the job if that mtrun dies or only falls silent.
#include <chrono>
#include <thread>

#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class SuccessionTest : public NetworkTest {
 protected:
  /// The first formation waits for all three.
  std::unique_ptr<Program> Begin(int node, const std::string& conf = "") {
    return Start(node, "1:3", conf, "20");
  }
  /// Kills whole processes; their machine lives on and refuses connections.
  static void Kill(Program& mtrun) {
    kill(AgentOf(mtrun), SIGKILL);
    mtrun.Signal(SIGKILL);
    mtrun.Wait();
  }
  /// Returns the files that a service keeps of its jobs.
  std::vector<std::string> WrittenDown() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("mtrun")))
      if (entry.path().extension() == ".membership") files.push_back(entry.path());
    return files;
  }
  /// Returns the generation after `before` that all of them are in, or 0 if they do not find each other soon.
  static int Together(const std::vector<Program*>& mtruns, int before) {
    for (int generation = before; generation < before + 6; ++generation) {
      const auto is_in = [&](Program* mtrun) {
        const std::string text = absl::StrCat("in generation ", generation, ": rank");
        const auto line = mtrun->WaitForLine(text, Seconds(5));
        return line && line->find(absl::StrCat(" of ", mtruns.size(), " ")) != std::string::npos;
      };
      if (std::all_of(mtruns.begin(), mtruns.end(), is_in)) return generation;
    }
    return 0;
  }
  /// Lets the workers finish.
  static void Finish(const std::vector<Program*>& mtruns, int generation) {
    for (Program* mtrun : mtruns) kill(PidIn(*mtrun, generation), SIGUSR1);
    for (Program* mtrun : mtruns) EXPECT_EQ(mtrun->Wait(kSoon), 0) << mtrun->Text();
  }
};

TEST_F(SuccessionTest, MembersContinueWithoutADeadHost) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  EXPECT_EQ(PidIn(*b, 2), PidIn(*b, 1));
  EXPECT_EQ(PidIn(*c, 2), PidIn(*c, 1));
  // The next host dies as well.
  Kill(*b);
  ASSERT_TRUE(Met(*c, 3, 1)) << c->Text();
  EXPECT_EQ(PidIn(*c, 3), PidIn(*c, 1));
  Finish({c.get()}, 3);
}

TEST_F(SuccessionTest, SurvivorOfTwoNodesContinues) {
  const auto a = Start(0, "1:2", "", "20"), b = Start(1, "1:2", "", "20");
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 1)) << b->Text();
  Finish({b.get()}, 2);
}

/// The survivor connects to its own stand-by service first, while another program has the endpoint's port.
/// That service waits for one at the endpoint, which reads the file on this disk.
TEST_F(SuccessionTest, SurvivorOnTheEndpointsMachineHostsNextToItsStandby) {
  const auto a = Start(0, "1:2", "", "20");
  ASSERT_TRUE(a->WaitForLine("hosting the rendezvous at ", kSoon)) << a->Text();
  const auto b = Start(0, "1:2", "", "20");
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2)) << a->Text() << b->Text();
  // The host may have lost it before it died.
  const pid_t agent = AgentOf(*b);
  kill(agent, SIGSTOP);
  Kill(*a);
  Program other(network_->On(0, {"python3", "-c",
                                 "import socket\n"
                                 "with socket.create_server(('::', 29400), family=socket.AF_INET6,\n"
                                 "                          dualstack_ipv6=True) as s:\n"
                                 "  print('bound', flush=True)\n"
                                 "  while True: s.accept()[0].close()\n"}),
                Environment());
  ASSERT_TRUE(other.WaitForLine("bound", kSoon)) << other.Text();
  std::this_thread::sleep_for(Seconds(2));
  kill(agent, SIGCONT);
  ASSERT_TRUE(b->WaitForLine("start mtrun there again", kSoon)) << b->Text();
  other.Signal(SIGKILL);
  EXPECT_TRUE(b->WaitForLine("hosting the rendezvous at ", kSoon)) << b->Text();
  ASSERT_TRUE(Met(*b, 2, 1)) << b->Text();
  EXPECT_EQ(PidIn(*b, 2), PidIn(*b, 1));
  Finish({b.get()}, 2);
}

TEST_F(SuccessionTest, HostCanLeaveWhileTheOthersStopTheirWorkersSlowly) {
  RunSlowToStop();
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ExpectOthersToGoOnWithout(*a, {b.get(), c.get()});
}

TEST_F(SuccessionTest, RestartedHostFindsItsJob) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  const auto again = Begin(0);
  ASSERT_TRUE(Met(*again, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3)) << again->Text() << b->Text() << c->Text();
  EXPECT_THAT(again->Text(), HasSubstr("the job is at " + network_->Address(1)));
  EXPECT_EQ(PidIn(*b, 3), PidIn(*b, 1));
  Finish({again.get(), b.get(), c.get()}, 3);
  EXPECT_THAT(WrittenDown(), testing::IsEmpty())
      << "the next run of the job would wait for nodes of this one";
}

/// The machine was replaced, so no state is saved there. A node with the job reports it.
TEST_F(SuccessionTest, RestartedHostWithoutStateFindsItsJob) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  ASSERT_THAT(WrittenDown(), Not(testing::IsEmpty()));
  // Only these files: the logs of living nodes are in the same folder.
  for (const std::string& file : WrittenDown()) std::filesystem::remove(file);
  const auto again = Begin(0);
  ASSERT_TRUE(Met(*again, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3)) << again->Text() << b->Text() << c->Text();
  Finish({again.get(), b.get(), c.get()}, 3);
}

TEST_F(SuccessionTest, MemberThatDiesWithTheHostIsNotAwaited) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*b);
  Kill(*a);
  for (int generation = 2; generation < 4; ++generation) {
    if (c->WaitForLine(absl::StrCat("in generation ", generation, ": rank 0 of 1"), Seconds(10))) break;
  }
  EXPECT_THAT(c->Text(), HasSubstr(": rank 0 of 1 ")) << c->Text();
}

TEST_F(SuccessionTest, SilentHostKeepsTheJob) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  ASSERT_TRUE(b->WaitForLine("still cannot reach the rendezvous service", kSoon)) << b->Text();
  EXPECT_THAT(b->Text() + c->Text(), Not(HasSubstr("in generation 2")));
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  // The host has continued alone: generation 2.
  const int last = Together({a.get(), b.get(), c.get()}, 3);
  ASSERT_GT(last, 2) << a->Text() << b->Text();
  EXPECT_EQ(PidIn(*b, last), PidIn(*b, 1));
  Finish({a.get(), b.get(), c.get()}, last);
}

TEST_F(SuccessionTest, EvictionEndsTheWaitForASilentHost) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  const auto advice = b->WaitForLine("mtrun --evict node0 ", kSoon);
  ASSERT_TRUE(advice) << b->Text();
  const auto [other, other_status] = Evict(1, "node2", Advised(*advice));
  EXPECT_EQ(other_status, 1);
  EXPECT_THAT(other, HasSubstr("node2 does not host the rendezvous of job"));
  EXPECT_THAT(b->Text() + c->Text(), Not(HasSubstr("in generation 2")));

  const auto [done, status] = Evict(1, "node0", Advised(*advice));
  EXPECT_EQ(status, 0) << done;
  EXPECT_THAT(done, HasSubstr("node0 is evicted from generation 1 of job"));
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  EXPECT_EQ(PidIn(*b, 2), PidIn(*b, 1));
  EXPECT_EQ(PidIn(*c, 2), PidIn(*c, 1));

  // It was alive all the time and has continued alone, which the operator had ruled out: one of both
  // continues.
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  const int last = Together({a.get(), b.get(), c.get()}, 3);
  ASSERT_GT(last, 2) << a->Text() << b->Text();
  Finish({a.get(), b.get(), c.get()}, last);
}

TEST_F(SuccessionTest, MajorityContinuesWithoutASilentHostIfAllowed) {
  const std::string majority = ",takeover=majority";
  const auto a = Begin(0, majority), b = Begin(1, majority), c = Begin(2, majority);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  EXPECT_THAT(a->Text(), Not(HasSubstr("in generation 2"))) << "it has no majority";
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  ASSERT_TRUE(Met(*a, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3)) << a->Text() << b->Text();
  EXPECT_EQ(PidIn(*a, 3), PidIn(*a, 1));
  Finish({a.get(), b.get(), c.get()}, 3);
}

TEST_F(SuccessionTest, ColdRestartEqualsAFirstStart) {
  {
    const auto a = Begin(0), b = Begin(1), c = Begin(2);
    ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
    for (const auto& mtrun : {c.get(), b.get(), a.get()}) Kill(*mtrun);
  }
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(a->WaitForLine(" of 3 ", kSoon) && b->WaitForLine(" of 3 ", kSoon) &&
              c->WaitForLine(" of 3 ", kSoon))
      << a->Text();
}

/// A freshly started host without its members may not start the job: they may have continued.
TEST_F(SuccessionTest, RestartedHostWaitsForPossiblyRunningMembers) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  Kill(*a);
  const auto again = Begin(0);
  ASSERT_TRUE(again->WaitForLine("may still run elsewhere", kSoon)) << again->Text();
  EXPECT_THAT(again->Text(), Not(HasSubstr("in generation")));
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  ASSERT_TRUE(again->WaitForLine(" of 3 ", kSoon) && b->WaitForLine("in generation 2", kSoon))
      << again->Text();
  EXPECT_EQ(PidIn(*b, 2), PidIn(*b, 1));
}

}  // namespace
}  // namespace mtrun::e2e
