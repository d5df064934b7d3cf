#include "rendezvous/service/state_folder.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/validate_assignment.h"
#include "tests/rendezvous/job_values.h"
#include "tests/support/log_lines.h"
#include "tests/support/no_threads.h"
#include "tests/support/program.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

RememberedEnd EndOf(const std::string& job_id, uint64_t run) {
  RememberedEnd end{job_id, {run, 12, true}, {}};
  end.outcome.success = true;
  end.outcome.reason = "all workers have finished";
  return end;
}

class StateFolderTest : public ::testing::Test {
 protected:
  std::map<std::string, RememberedJob> Load(const std::string& endpoint = "node1:29400") const {
    return StateFolder(path(), endpoint).Load();
  }
  std::string path() const { return folder_.File("state"); }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path())) files.push_back(entry.path());
    return files;
  }
  /// Puts a folder in place of the end's file, until it is removed. Returns its path.
  std::string BlockEnd(const RememberedEnd& end) const {
    {
      StateFolder states(path(), "node1:29400");
      states.Keep(end.job_id, one_.generation, one_.verified);
      states.End(end);
    }
    const std::vector<std::string> files = Files();
    EXPECT_EQ(files.size(), 1u);
    EXPECT_TRUE(files.at(0).ends_with(".end"));
    fs::remove(files.at(0));
    fs::create_directories(files.at(0));
    support::WriteText(files.at(0) + "/in the way", "");
    return files.at(0);
  }

  support::TemporaryFolder folder_;
  const RememberedJob one_{MakeGeneration(1, {"node1", "node2"}), {}},
      two_{MakeGeneration(2, {"node2"}), {"node2", "a \"name\"\nof two lines"}};
};

TEST_F(StateFolderTest, NextServiceReadsTheStateOfTheLastOne) {
  EXPECT_THAT(Load(), IsEmpty());
  {
    StateFolder states(path(), "node1:29400");
    states.Keep("job", one_.generation, one_.verified);
    states.Keep("a job/with any name", two_.generation, two_.verified);
    states.Keep("job", two_.generation, two_.verified);
    states.Keep("job", two_.generation, two_.verified);
  }
  EXPECT_THAT(Load(), UnorderedElementsAre(Pair("job", two_), Pair("a job/with any name", two_)));
  EXPECT_THAT(Load("node2:29400"), IsEmpty()) << "another endpoint's";
}

TEST_F(StateFolderTest, EndedJobIsForgotten) {
  {
    StateFolder states(path(), "node1:29400");
    states.Keep("job", one_.generation, one_.verified);
    states.Keep("other", one_.generation, one_.verified);
    states.Forget("job");
    states.Forget("unknown");
  }
  EXPECT_THAT(Load(), ElementsAre(Pair("other", one_)));
  {
    StateFolder states(path(), "node1:29400");
    states.Load();
    states.Forget("other");
  }
  EXPECT_THAT(Load(), IsEmpty()) << "the service that has written it down is not the one where the job ends";
}

TEST_F(StateFolderTest, EndOfTheLastRunIsKeptForADay) {
  const RememberedEnd good{"job", {7, 3, true}, JobOutcome{true, 0, "all 3 nodes finished", {}, false}},
      bad{"job", {~uint64_t{0}, 4, false}, JobOutcome{false, 137, "a \"reason\"\nof two lines", {}, true}};
  {
    StateFolder states(path(), "node1:29400");
    RememberedEnd other = good;
    other.job_id = "never ran";
    states.End(other);
    for (const RememberedEnd* end : {&good, &bad}) {
      states.Keep("job", one_.generation, one_.verified);
      states.End(*end);
      states.End(good);  // repeated
    }
    states.Keep("job", two_.generation, two_.verified);  // the next run
  }
  StateFolder states(path(), "node1:29400");
  EXPECT_THAT(states.LoadEnds(), ElementsAre(bad));
  EXPECT_THAT(states.Load(), ElementsAre(Pair("job", two_)));
  EXPECT_THAT(StateFolder(path(), "node2:29400").LoadEnds(), IsEmpty());
  const auto set_age = [](const std::string& file, int hours) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  // A machine whose clock is days ahead, on a shared home, removed the ends of all others.
  for (const std::string& file : Files()) set_age(file, 25);
  EXPECT_THAT(states.LoadEnds(), ElementsAre(bad)) << "nothing was written a day after it";
  for (const std::string& file : Files()) {
    if (file.ends_with(".membership")) set_age(file, 0);
  }
  EXPECT_THAT(states.LoadEnds(), IsEmpty());
  EXPECT_EQ(Files().size(), 1u) << "the membership";
}

TEST_F(StateFolderTest, UnrelatedFilesInTheFolderAreKept) {
  for (const char* name :
       {"notes.end", "0123456789abcdeg.end", "0123456789abcdef0.end", "notes.membership"}) {
    const std::string file = absl::StrCat(path(), "/", name);
    fs::create_directories(path());
    support::WriteText(file, "mine");
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  {
    StateFolder states(path(), "node1:29400");
    const support::LogLines log;
    EXPECT_THAT(states.LoadEnds(), IsEmpty());
    EXPECT_THAT(states.Load(), IsEmpty());
    EXPECT_EQ(log.Text(), "");
    states.Keep("job", one_.generation, one_.verified);
    states.End(EndOf("job", 7));  // also removes old ones
  }
  EXPECT_EQ(Files().size(), 5u);
}

TEST_F(StateFolderTest, MembershipStaysIfTheEndCannotBeWritten) {
  const RememberedEnd end = EndOf("job", 7);
  const std::string file = BlockEnd(end);
  {
    StateFolder states(path(), "node1:29400", /*pause=*/std::chrono::milliseconds(1));
    states.Keep("job", one_.generation, one_.verified);
    const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
    while (Load().empty() && MonotonicNow() < give_up) {
    }
    states.End(end);
  }
  EXPECT_THAT(Load(), ElementsAre(Pair("job", one_)));
  fs::remove_all(file);
  {
    StateFolder states(path(), "node1:29400");
    states.Load();
    states.End(end);
  }
  EXPECT_THAT(Load(), IsEmpty());
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
}

TEST_F(StateFolderTest, MembershipStaysIfAnEndElsewhereCannotBeWritten) {
  const RememberedEnd end = EndOf("job", 7);
  const std::string file = BlockEnd(end);
  RememberedJob ended = one_;
  ended.generation.incarnation = 7;
  { StateFolder(path(), "node1:29400").Keep("job", ended.generation, ended.verified); }
  {
    const support::LogLines log;
    NoteEnd(path(), "node1:29400", end);
    EXPECT_THAT(log.Text(), HasSubstr("the outcome of the job cannot be saved"));
  }
  EXPECT_THAT(Load(), ElementsAre(Pair("job", ended)));
  fs::remove_all(file);
  NoteEnd(path(), "node1:29400", end);
  EXPECT_THAT(Load(), IsEmpty());
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
}

TEST_F(StateFolderTest, FailedWriteOfAnEndKeepsTheNextRun) {
  const RememberedEnd end = EndOf("job", 7);
  const std::string file = BlockEnd(end);
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  {
    StateFolder states(path(), "node1:29400", /*pause=*/std::chrono::milliseconds(10));
    // Logged by the writing thread: the end has failed and is not queued again yet.
    log::SetSink([&](const std::string& line) {
      if (absl::StrContains(line, "cannot be saved")) states.Keep("job", two_.generation, two_.verified);
    });
    states.Keep("job", one_.generation, one_.verified);
    states.End(end);
    while (Load() != std::map<std::string, RememberedJob>{{"job", two_}} && MonotonicNow() < give_up) {
    }
    log::SetSink({});
    fs::remove_all(file);
    while (StateFolder(path(), "node1:29400").LoadEnds().empty() && MonotonicNow() < give_up) {
    }
  }
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
  EXPECT_THAT(Load(), ElementsAre(Pair("job", two_)));
}

TEST_F(StateFolderTest, LateEndKeepsTheNextRun) {
  const RememberedEnd end = EndOf("job", 7);
  StateFolder states(path(), "node1:29400", /*pause=*/std::chrono::milliseconds(10));
  ASSERT_TRUE(WriteFileAtomically(path(), "in the way").ok());
  const support::LogLines log;
  states.Keep("job", one_.generation, one_.verified);
  states.End(end);
  ASSERT_TRUE(log.Await("cannot be saved", std::chrono::seconds(30)));
  states.Keep("job", two_.generation, two_.verified);
  fs::remove(path());
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  while (StateFolder(path(), "node1:29400").LoadEnds().empty() && MonotonicNow() < give_up) {
  }
  while (Load().empty() && MonotonicNow() < give_up) {
  }
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
  EXPECT_THAT(Load(), ElementsAre(Pair("job", two_)));
}

TEST_F(StateFolderTest, UnreadableEndIsSkipped) {
  StateFolder(path(), "node1:29400").Keep("job", one_.generation, one_.verified);
  for (const char* text : {"", "mtrun end 1\nnode1:29400\njob\n", "mtrun end 1\nnode1:29400\njob\n{}",
                           "mtrun end 1\nnode1:29400\njob\n{\"run\":0,\"generation\":1,\"success\":true,"
                           "\"exit_code\":0,\"reason\":\"\"}",
                           "mtrun end 1\nnode1:29400\njob\n{\"run\":-1,\"generation\":1,\"success\":true}"}) {
    support::WriteText(path() + "/0123456789abcdef.end", text);
    EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), IsEmpty()) << text;
  }
}

TEST_F(StateFolderTest, EndOfARunElsewhereIsKept) {
  RememberedJob ended = one_;
  ended.generation.incarnation = 7;
  { StateFolder(path(), "node1:29400").Keep("job", ended.generation, ended.verified); }
  const RememberedEnd end = EndOf("job", 7);
  NoteEnd(path(), "node2:29400", end);
  NoteEnd(path(), "node1:29400", EndOf("other", 7));
  NoteEnd(path(), "node1:29400", EndOf("job", 8));
  NoteEnd("", "node1:29400", end);
  EXPECT_THAT(Load(), ElementsAre(Pair("job", ended))) << "another run of it goes on";
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), IsEmpty());
  NoteEnd(path(), "node1:29400", end);
  NoteEnd(path(), "node1:29400", end);
  EXPECT_THAT(Load(), IsEmpty());
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
  // The record of a service stays, because it knows more of its generations.
  { StateFolder(path(), "node1:29400").Keep("job", ended.generation, ended.verified); }
  RememberedEnd lower = end;
  lower.run.last_number = 3;
  NoteEnd(path(), "node1:29400", lower);
  EXPECT_THAT(Load(), IsEmpty());
  EXPECT_THAT(StateFolder(path(), "node1:29400").LoadEnds(), ElementsAre(end));
}

TEST_F(StateFolderTest, MachinesWithASharedHomeUseSeparateFiles) {
  for (const char* endpoint :
       {"[::]:29400", "0.0.0.0:29400", "localhost:29400", "127.0.0.1:29400", "[::1]:29400"}) {
    const std::string here = StateKey(endpoint, "login1"), there = StateKey(endpoint, "login2");
    RememberedJob job = one_;
    job.generation.incarnation = 7;
    { StateFolder(path(), here).Keep("job", job.generation, job.verified); }
    EXPECT_THAT(Load(there), IsEmpty()) << endpoint;
    NoteEnd(path(), there, EndOf("job", 7));
    EXPECT_THAT(Load(here), ElementsAre(Pair("job", job))) << endpoint;
    NoteEnd(path(), here, EndOf("job", 7));
    EXPECT_THAT(Load(here), IsEmpty()) << endpoint;
    EXPECT_EQ(StateKey(endpoint, ""), endpoint) << "the folder is this machine's own";
  }
  // A host that is started again may be told its machine in other words.
  for (const char* endpoint : {"127.0.0.1:29400", "[::]:29400", "0.0.0.0:29400"})
    EXPECT_EQ(StateKey(endpoint, "login1"), StateKey("localhost:29400", "login1"));
  EXPECT_NE(StateKey("localhost:29401", "login1"), StateKey("localhost:29400", "login1"));
  // Independent of the machine behind that name or address.
  for (const char* endpoint : {"node1:29400", "10.0.0.1:29400", "[fe80::1%eth0]:29400"})
    EXPECT_EQ(StateKey(endpoint, "login1"), endpoint);
}

TEST_F(StateFolderTest, UnreadableFileIsSkipped) {
  { StateFolder(path(), "node1:29400").Keep("job", one_.generation, one_.verified); }
  ASSERT_EQ(Files().size(), 1u);
  const std::string whole = *ReadFile(Files().front());
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(WriteFileAtomically(Files().front(), whole.substr(0, size)).ok());
    for (const auto& [job_id, job] : Load()) EXPECT_TRUE(ValidateAssignment(job.generation).ok()) << size;
  }
  ASSERT_TRUE(WriteFileAtomically(Files().front(), "something else\n\n\n").ok());
  EXPECT_THAT(Load(), IsEmpty());
  fs::remove(Files().front());
  fs::create_directories(path() + "/0123456789abcdef.membership");
  EXPECT_THAT(Load(), IsEmpty());
}

TEST_F(StateFolderTest, FirstFileFormatIsRead) {
  { StateFolder(path(), "node1:29400").Keep("job", one_.generation, one_.verified); }
  const std::string membership = EncodeMembership(one_.generation);
  const std::string first = absl::StrCat("mtrun membership 1\nnode1:29400\njob\n", membership);
  ASSERT_TRUE(WriteFileAtomically(Files().front(), first).ok());
  EXPECT_THAT(Load(), ElementsAre(Pair("job", one_)));
}

TEST_F(StateFolderTest, VerifiedMembersAreStored) {
  RememberedJob verified = one_;
  {
    StateFolder states(path(), "node1:29400");
    states.Keep("job", verified.generation, verified.verified);
    verified.verified = {"node1"};
    states.Keep("job", verified.generation, verified.verified);
  }
  EXPECT_THAT(Load(), ElementsAre(Pair("job", verified)));
}

TEST_F(StateFolderTest, SparesAreStored) {
  RememberedJob job = one_;
  job.spares = {{"node3", "node3:30001"}, {"node4", "[fe80::1]:30002"}};
  Spares spares;
  {
    StateFolder states(path(), "node1:29400");
    states.Keep("job", job.generation, job.verified, spares);
    spares.OnRemembered(job.spares);
    states.Keep("job", job.generation, job.verified, spares);
  }
  EXPECT_THAT(Load(), ElementsAre(Pair("job", job)));
  std::string text = support::ReadText(Files().front());
  text.replace(text.find("[fe80"), 5, "fe80:");
  ASSERT_TRUE(WriteFileAtomically(Files().front(), text).ok());
  job.spares.erase("node4");
  EXPECT_THAT(Load(), ElementsAre(Pair("job", job))) << "what is no endpoint is left out";
}

TEST_F(StateFolderTest, ServiceWorksWithoutAStateFolder) {
  ASSERT_TRUE(WriteFileAtomically(folder_.File("file"), "").ok());
  StateFolder states(folder_.File("file") + "/state", "node1:29400");
  states.Keep("job", one_.generation, one_.verified);
  states.Keep("job", two_.generation, two_.verified);
  EXPECT_THAT(states.Load(), IsEmpty());
  StateFolder none("", "node1:29400");
  none.Keep("job", one_.generation, one_.verified);
  EXPECT_THAT(none.Load(), IsEmpty());
}

TEST_F(StateFolderTest, FailedWriteIsRetried) {
  ASSERT_TRUE(WriteFileAtomically(path(), "in the way").ok());
  const support::LogLines log;
  StateFolder states(path(), "node1:29400", /*pause=*/std::chrono::milliseconds(10));
  states.Keep("job", one_.generation, one_.verified);
  states.Keep("other", one_.generation, one_.verified);
  ASSERT_TRUE(log.Await("cannot be saved", std::chrono::seconds(30)));
  states.Keep("other", two_.generation, two_.verified);
  fs::remove(path());
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  while (Load().size() < 2 && MonotonicNow() < give_up) states.Keep("job", one_.generation, one_.verified);
  EXPECT_THAT(Load(), ElementsAre(Pair("job", one_), Pair("other", two_)));
}

TEST_F(StateFolderTest, StateIsWrittenOnceAThreadIsAvailable) {
  StateFolder states(path(), "node1:29400", /*pause=*/std::chrono::milliseconds(10));
  {
    const support::NoThreads none;
    states.Keep("job", one_.generation, one_.verified);
  }
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  while (Load().empty() && MonotonicNow() < give_up) states.Keep("job", one_.generation, one_.verified);
  EXPECT_THAT(Load(), ElementsAre(Pair("job", one_)));
}

TEST_F(StateFolderTest, StateIsWrittenAtTheEndWithoutAnyThread) {
  const support::NoThreads none;
  { StateFolder(path(), "node1:29400").Keep("job", one_.generation, one_.verified); }
  EXPECT_THAT(Load(), ElementsAre(Pair("job", one_)));
}

TEST(StateFolderOf, FollowsTheEnvironment) {
  EXPECT_EQ(StateFolderOf({{"XDG_STATE_HOME", "/state"}, {"HOME", "/home/me"}}), "/state/mtrun");
  EXPECT_EQ(StateFolderOf({{"XDG_STATE_HOME", ""}, {"HOME", "/home/me"}}), "/home/me/.local/state/mtrun");
  EXPECT_EQ(StateFolderOf({}), "");
}

}  // namespace
}  // namespace mtrun::rendezvous
