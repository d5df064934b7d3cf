// One endpoint, hosted by an mtrun: what becomes of the job when that one dies, or only falls silent.
#include <chrono>
#include <thread>

#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class SuccessionTest : public NetworkTest {
 protected:
  /// A first formation waits for all three.
  std::unique_ptr<Program> Begin(int node, const std::string& conf = "") {
    return Start(node, "1:3", conf, "20");
  }
  /// Whole processes die; their machine lives, and refuses.
  static void Kill(Program& mtrun) {
    kill(AgentOf(mtrun), SIGKILL);
    mtrun.Signal(SIGKILL);
    mtrun.Wait();
  }
  /// Files that a service keeps of the jobs that it has.
  std::vector<std::string> WrittenDown() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("mtrun")))
      if (entry.path().extension() == ".membership") files.push_back(entry.path());
    return files;
  }
  /// The generation beyond `before` that all of them are in, 0 when they have not found each other soon.
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
  /// The workers are done.
  static void Finish(const std::vector<Program*>& mtruns, int generation) {
    for (Program* mtrun : mtruns) kill(PidIn(*mtrun, generation), SIGUSR1);
    for (Program* mtrun : mtruns) EXPECT_EQ(mtrun->Wait(kSoon), 0) << mtrun->Text();
  }
};

TEST_F(SuccessionTest, TheMembersGoOnWithoutAHostThatIsDead) {
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

TEST_F(SuccessionTest, OfTwoNodesTheOtherOneGoesOn) {
  const auto a = Start(0, "1:2", "", "20"), b = Start(1, "1:2", "", "20");
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 1)) << b->Text();
  Finish({b.get()}, 2);
}

/// It comes to its own stand-by service first, while another program has the endpoint's port. That service
/// waits for one at the endpoint, which reads the file on this disk.
TEST_F(SuccessionTest, ASurvivorOnTheEndpointsMachineHostsThereBesideItsStandby) {
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

TEST_F(SuccessionTest, AHostMayLeaveWhileTheOthersStopTheirWorkersSlowly) {
  RunSlowToStop();
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ExpectOthersToGoOnWithout(*a, {b.get(), c.get()});
}

TEST_F(SuccessionTest, AHostThatStartsAgainFindsWhereItsJobIs) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  const auto again = Begin(0);
  ASSERT_TRUE(Met(*again, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3)) << again->Text();
  EXPECT_THAT(again->Text(), HasSubstr("the job is at " + network_->Address(1)));
  EXPECT_EQ(PidIn(*b, 3), PidIn(*b, 1));
  Finish({again.get(), b.get(), c.get()}, 3);
  EXPECT_THAT(WrittenDown(), testing::IsEmpty())
      << "the next run of the job would wait for nodes of this one";
}

/// The machine was replaced: nothing is written down there. Whoever has the job tells it.
TEST_F(SuccessionTest, AHostThatRemembersNothingFindsItToo) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*a);
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2)) << b->Text() << c->Text();
  ASSERT_THAT(WrittenDown(), Not(testing::IsEmpty()));
  // These files alone: the logs of those that live lie in the same folder.
  for (const std::string& file : WrittenDown()) std::filesystem::remove(file);
  const auto again = Begin(0);
  ASSERT_TRUE(Met(*again, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3)) << again->Text();
  Finish({again.get(), b.get(), c.get()}, 3);
}

TEST_F(SuccessionTest, AMemberThatDiesWithTheHostIsNotWaitedFor) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  Kill(*b);
  Kill(*a);
  for (int generation = 2; generation < 4; ++generation) {
    if (c->WaitForLine(absl::StrCat("in generation ", generation, ": rank 0 of 1"), Seconds(10))) break;
  }
  EXPECT_THAT(c->Text(), HasSubstr(": rank 0 of 1 ")) << c->Text();
}

TEST_F(SuccessionTest, AHostThatIsOnlySilentKeepsTheJob) {
  const auto a = Begin(0), b = Begin(1), c = Begin(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  ASSERT_TRUE(b->WaitForLine("still cannot reach the rendezvous service", kSoon)) << b->Text();
  EXPECT_THAT(b->Text() + c->Text(), Not(HasSubstr("in generation 2")));
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  // By itself the host has gone on alone: generation 2.
  const int last = Together({a.get(), b.get(), c.get()}, 3);
  ASSERT_GT(last, 2) << a->Text() << b->Text();
  EXPECT_EQ(PidIn(*b, last), PidIn(*b, 1));
  Finish({a.get(), b.get(), c.get()}, last);
}

TEST_F(SuccessionTest, AnOperatorsWordEndsTheWaitForASilentHost) {
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

  // It was alive all the time, and has gone on alone, as the operator had ruled out: one of both goes on.
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  const int last = Together({a.get(), b.get(), c.get()}, 3);
  ASSERT_GT(last, 2) << a->Text() << b->Text();
  Finish({a.get(), b.get(), c.get()}, last);
}

TEST_F(SuccessionTest, AMajorityGoesOnWithoutASilentHostWhereItMay) {
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

TEST_F(SuccessionTest, AColdRestartIsAFirstStart) {
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

/// A host that starts afresh and does not hear of its members may not begin: they may have gone on.
TEST_F(SuccessionTest, AHostThatStartsAgainWaitsForMembersThatMayRun) {
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
