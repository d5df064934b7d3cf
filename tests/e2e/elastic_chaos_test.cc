// Nodes that join, leave and flap; and tools/chaos, which injects all faults for two minutes and then checks
// the invariants in the event logs.
#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class ScaleTest : public NetworkTest {
 protected:
  /// Cuts and restores the cable of node 2 until `seconds` have passed. Cuts last up to a second, so that
  /// some are detected as a silent node and some are not.
  void Flap(Seconds seconds) const {
    const auto end = std::chrono::steady_clock::now() + seconds;
    for (int turn = 0; std::chrono::steady_clock::now() < end; ++turn) {
      const bool up = turn % 2 != 0;
      ASSERT_TRUE(network_->SetLink(2, up).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(up ? 150 : 100 + 370 * (turn % 7)));
    }
    ASSERT_TRUE(network_->SetLink(2, true).ok());
  }

  /// Returns the newest generation in which the node's worker has met the others, if it had all three.
  static int GenerationOfAll(Program& mtrun) {
    const std::vector<std::string> lines = From(mtrun.OutLines(), "in generation ");
    if (lines.empty() || lines.back().find(" of 3 ") == std::string::npos) return 0;
    return std::stoi(lines.back().substr(sizeof("in generation ") - 1));
  }

  /// Returns the generation that all three run together, or 0 if they do not find each other soon.
  static int Together(Program& a, Program& b, Program& c) {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    while (std::chrono::steady_clock::now() < deadline) {
      const int generation = GenerationOfAll(c);
      if (generation > 0 && generation == GenerationOfAll(a) && generation == GenerationOfAll(b))
        return generation;
      std::this_thread::sleep_for(Seconds(0.05));
    }
    return 0;
  }

  void ExpectTheSameWorkersAfterFlapping(Seconds seconds) {
    const auto a = Start(0, "1:3"), b = Start(1, "1:3"), c = Start(2, "1:3");
    const int first = Together(*a, *b, *c);
    ASSERT_GT(first, 0) << a->Text();
    const pid_t before[] = {PidIn(*a, first), PidIn(*b, first), PidIn(*c, first)};
    Flap(seconds);
    const int last = Together(*a, *b, *c);
    ASSERT_GT(last, first) << "cuts of two seconds are noticed\n" << a->Text() << c->Text();
    EXPECT_EQ(PidIn(*a, last), before[0]);
    EXPECT_EQ(PidIn(*b, last), before[1]);
    EXPECT_EQ(PidIn(*c, last), before[2]) << "it was alive all the time";
    for (const auto& mtrun : {a.get(), b.get(), c.get()}) kill(PidIn(*mtrun, last), SIGUSR1);
    for (const auto& mtrun : {a.get(), b.get(), c.get()}) EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  }
};

TEST_F(ScaleTest, OneNodeThenThreeThenTwo) {
  const auto a = Start(0, "1:3");
  ASSERT_TRUE(Met(*a, 1, 1));
  const auto b = Start(1, "1:3");
  ASSERT_TRUE(Met(*a, 2, 2) && Met(*b, 2, 2));
  const auto c = Start(2, "1:3");
  ASSERT_TRUE(Met(*a, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3));
  b->Signal(SIGTERM);
  EXPECT_EQ(b->Wait(), 0) << b->Text();
  ASSERT_TRUE(Met(*a, 4, 2) && Met(*c, 4, 2));
  EXPECT_THAT(a->Text(), HasSubstr("node1 received SIGTERM"));
  EXPECT_EQ(PidIn(*a, 4), PidIn(*a, 1));
  EXPECT_EQ(PidIn(*c, 4), PidIn(*c, 3));
  for (const auto& mtrun : {a.get(), c.get()}) kill(PidIn(*mtrun, 4), SIGUSR1);
  for (const auto& mtrun : {a.get(), c.get()}) EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
}

TEST_F(ScaleTest, FlappingLinkCostsNoWorker) { ExpectTheSameWorkersAfterFlapping(Seconds(8)); }

class LongFlappingTest : public ScaleTest {};

TEST_F(LongFlappingTest, OneMinuteOfFlappingCostsNoWorker) { ExpectTheSameWorkersAfterFlapping(Seconds(60)); }

/// Runs tools/chaos with the binaries under test; its output is part of a failure message.
class ChaosTest : public LauncherTest {
 protected:
  void RunChaos(std::vector<std::string> words, const std::string& seed) {
    const char* given = std::getenv("MTRUN_SEED");
    words.insert(words.begin(), {"python3", support::TestFile("../tools/chaos")});
    words.insert(words.end(), {"--bin", support::BinaryFolder(), "--seed", given != nullptr ? given : seed});
    // Data of a failed storm is kept outside the test's folder, which is deleted.
    auto environment = Environment();
    environment["TMPDIR"] = std::filesystem::temp_directory_path().string();
    Program chaos(words, environment);
    const std::optional<int> status = chaos.Wait(Seconds(500));
    if (status == 77) GTEST_SKIP() << chaos.Text();
    ASSERT_EQ(status, 0) << chaos.Text();
    std::cout << chaos.Text();
  }
};

TEST_F(ChaosTest, TwoMinutesOfFaultsViolateNoProperty) {
  RunChaos({"rendezvous", "--minutes", "2", "--each", "1"}, "2");
}

class LongChaosTest : public ChaosTest {};

TEST_F(LongChaosTest, FiveMinutesOfFaultsViolateNoProperty) {
  RunChaos({"rendezvous", "--minutes", "5", "--each", "3"}, "15");
}

/// Needs cnnA.
class TrainingChaosTest : public ChaosTest {
 protected:
  void SetUp() override {
    ChaosTest::SetUp();
    if (!std::filesystem::exists(support::BinaryFolder() + "/cnnA")) GTEST_SKIP() << "built without LibTorch";
  }
};

TEST_F(TrainingChaosTest, ManyFailuresDoNotChangeTheRun) {
  RunChaos({"train", "--interval", "2", "--step_seconds", "0.5", "--steps", "20", "--leaves", "4",
            "--service_interval", "4"},
           "3");
}

TEST_F(TrainingChaosTest, ShortStormDoesNotChangeTheRuns) {
  RunChaos({"train", "--minutes", "0.15", "--settings", "one:own", "--steps", "40", "--step_seconds", "0.2",
            "--without", "agent,freeze,flap,leave,service", "--each", "1"},
           "3");
}

class LongTrainingChaosTest : public TrainingChaosTest {};

TEST_F(LongTrainingChaosTest, SixMinutesOfFaultsDoNotChangeTheRuns) {
  RunChaos({"train", "--minutes", "6", "--each", "2"}, "15");
}

TEST_F(ChaosTest, NoGenerationEndsWithoutAFaultOnBusyProcessors) {
  RunChaos({"rendezvous", "--minutes", "0.3", "--quiet", "--load", "4"}, "1");
}

TEST_F(ChaosTest, ViolationsAreDetected) {
  const auto verdict = [&](const std::string& name, const std::string& records, const std::string& events) {
    std::filesystem::create_directories(folder_.File(name) + "/records");
    support::WriteText(folder_.File(name) + "/records/all.jsonl", records);
    support::WriteText(folder_.File(name) + "/events-0.jsonl", events);
    Program check(
        {"python3", support::TestFile("../tools/chaos"), "rendezvous", "--check", folder_.File(name)});
    EXPECT_EQ(check.Wait(), 1) << check.Text();
    return check.Text();
  };
  const std::string one =
      R"({"t":1,"kind":"enter","host":"node0","pid":7,"generation":"1.a","rank":0,"world":2})";
  const std::string other =
      R"({"t":2,"kind":"enter","host":"node1","pid":8,"generation":"1.a","rank":0,"world":2})";
  EXPECT_THAT(verdict("rank", one + "\n" + other + "\n", ""), HasSubstr("rank 0 is held by"));
  const auto commit = [](int t, const std::string& generation) {
    return absl::StrCat(R"({"t":)", t,
                        R"(,"kind":"commit","host":"node0","pid":7,"step":3,"world":2,"generation":")",
                        generation, "\"}\n");
  };
  EXPECT_THAT(verdict("lives", commit(1, "1.a") + commit(2, "2.b") + commit(3, "1.a"), ""),
              HasSubstr("generation 1.a commits step 3 after a later one has"));
  const std::string start =
      R"({"t":1,"kind":"start","host":"node0","pid":7,"generation":"1.a","rank":0,"local_rank":0})";
  EXPECT_THAT(verdict("start", start + "\n", ""), HasSubstr("its agent ordered 0"));
  EXPECT_THAT(
      verdict("alarm", "",
              R"({"event":"generation_dissolved","generation":1,"reason":"node2 is lost: no heartbeat",)"
              R"("host":"node0","time":"2026-01-02T03:04:05.678Z"})"
              "\n"),
      HasSubstr("dissolved without a cause: node2 is lost"));
}

}  // namespace
}  // namespace mtrun::e2e
