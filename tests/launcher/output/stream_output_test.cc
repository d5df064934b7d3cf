#include "launcher/output/stream_output.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using To = ConsoleWrite::Kind;

/// Everything that a stream has written, in order. Checks that the console continues only what it shows.
struct Written {
  std::string file, filtered, lines, update;
  std::vector<std::string> tail, begun;

  void Add(const StreamWrites& writes) {
    file += writes.file;
    filtered += writes.filtered;
    for (const Piece& piece : writes.tail)
      if (piece.kind != Piece::Kind::kUpdate) tail.push_back(piece.text);
    for (const ConsoleWrite& write : writes.console) Add(write);
  }
  bool operator==(const Written&) const = default;

 private:
  void Add(const ConsoleWrite& write) {
    if (write.kind == To::kUpdate) {
      update = write.text;
      return;
    }
    EXPECT_EQ(write.text.substr(0, write.shown), unfinished_.substr(0, write.shown));
    EXPECT_TRUE(write.shown == 0 || write.shown == unfinished_.size()) << write.shown;
    unfinished_ = write.kind == To::kBegin ? write.text : "";
    (write.kind == To::kBegin ? begun.emplace_back() : lines) += write.text;
  }
  std::string unfinished_;
};

class StreamOutputTest : public testing::Test {
 protected:
  static StreamRules Plain() { return {.prefix = "[w]:"}; }
  static StreamRules Terminal() { return {.prefix = "[w]:", .on_terminal = true}; }

  /// Feeds the bytes one after the other, all at one time, and ends the stream.
  static Written Play(const StreamRules& rules, const std::vector<std::string>& pieces) {
    StreamOutput stream(rules);
    Written written;
    for (const std::string& piece : pieces) written.Add(stream.OnBytes(piece, kStart));
    written.Add(stream.OnEnd(kStart));
    return written;
  }

  static constexpr TimePoint kStart = TimePoint(std::chrono::hours(1));
};

/// Returns the rules of every kind of stream.
std::vector<StreamRules> AllRules() {
  std::vector<StreamRules> all;
  for (const int which : {0, 1}) {
    for (const bool terminal : {false, true}) {
      for (const bool thins : {false, true}) {
        all.push_back({.which = which,
                       .prefix = "[w]:",
                       .filters = {"ab"},
                       .breaks_lines = thins,
                       .thins_updates = thins,
                       .on_terminal = terminal});
      }
    }
    all.push_back({.which = which, .prefix = "", .to_console = false});
    all.push_back({.which = which, .prefix = "", .raw = true});
  }
  return all;
}

TEST_F(StreamOutputTest, LinesGetThePrefixAndTheFileGetsBytes) {
  StreamOutput stream(Plain());
  const StreamWrites first = stream.OnBytes("one\ntwo\r\nthr", kStart);
  EXPECT_EQ(first.file, "one\ntwo\r\nthr");
  EXPECT_THAT(first.console, ElementsAre(ConsoleWrite{To::kLines, "[w]:one\n[w]:two\n"}));
  EXPECT_THAT(first.tail, IsEmpty()) << "only of standard error";
  EXPECT_THAT(stream.OnEnd(kStart).console, ElementsAre(ConsoleWrite{To::kLines, "[w]:thr\n"}));
}

TEST_F(StreamOutputTest, TailGetsLinesOfStandardError) {
  StreamRules rules = Plain();
  rules.which = 1;
  rules.to_console = false;
  const Written written = Play(rules, {"one\ntw", "o\nend"});
  EXPECT_THAT(written.tail, ElementsAre("one", "two", "end"));
  EXPECT_EQ(written.lines, "");
}

TEST_F(StreamOutputTest, MatchingLinesAreKeptApartWithTheirPrefix) {
  StreamRules rules = Plain();
  rules.filters = {"loss", "step 7"};
  rules.to_console = false;
  EXPECT_EQ(Play(rules, {"start\nlo", "ss 3\nstep 7"}).filtered, "[w]:loss 3\n[w]:step 7\n");
}

TEST_F(StreamOutputTest, RawBytesAreUnchanged) {
  StreamRules rules = Plain();
  rules.raw = true;
  rules.on_terminal = true;
  StreamOutput stream(rules);
  EXPECT_THAT(stream.OnBytes("10%\r20", kStart).console, ElementsAre(ConsoleWrite{To::kRaw, "10%\r20"}));
  EXPECT_EQ(stream.Due(kStart), std::nullopt);
  EXPECT_THAT(stream.OnEnd(kStart).console, IsEmpty());
}

TEST_F(StreamOutputTest, UpdateIsTheStatusLineOfATerminal) {
  StreamOutput stream(Terminal());
  EXPECT_THAT(stream.OnBytes("10%\r20%\r", kStart).console,
              ElementsAre(ConsoleWrite{To::kUpdate, "[w]:10%"}, ConsoleWrite{To::kUpdate, "[w]:20%"}));
  EXPECT_THAT(stream.OnBytes("done\n", kStart).console,
              ElementsAre(ConsoleWrite{To::kUpdate, "[w]:20%"}, ConsoleWrite{To::kUpdate, ""},
                          ConsoleWrite{To::kLines, "[w]:done\n"}));
}

TEST_F(StreamOutputTest, PromptAppearsWhenAllStreamsAreQuiet) {
  StreamOutput stream(Terminal());
  stream.OnBytes("name", kStart);
  EXPECT_EQ(stream.Due(kStart), kStart + StreamOutput::kPromptAfter);
  EXPECT_THAT(stream.OnTime(kStart + milliseconds(149), kStart).console, IsEmpty());
  const TimePoint other_bytes = kStart + milliseconds(100);
  EXPECT_THAT(stream.OnTime(kStart + milliseconds(200), other_bytes).console, IsEmpty());
  EXPECT_THAT(stream.OnTime(kStart + milliseconds(250), other_bytes).console,
              ElementsAre(ConsoleWrite{To::kBegin, "[w]:name"}));
  EXPECT_EQ(stream.Due(kStart), std::nullopt) << "it is shown";
  stream.OnBytes("? ", kStart);
  EXPECT_THAT(stream.OnTime(kStart + milliseconds(150), kStart).console,
              ElementsAre(ConsoleWrite{To::kBegin, "[w]:name? ", 8}));
  EXPECT_THAT(stream.OnBytes("Eve\nnext\n", kStart).console,
              ElementsAre(ConsoleWrite{To::kLines, "[w]:name? Eve\n[w]:next\n", 10}));
}

TEST_F(StreamOutputTest, LineAfterAPromptThatWasRewrittenIsComplete) {
  StreamOutput stream(Terminal());
  stream.OnBytes("10%", kStart);
  stream.OnTime(kStart + StreamOutput::kPromptAfter, kStart);
  EXPECT_THAT(stream.OnBytes("\r20%\n", kStart).console,
              ElementsAre(ConsoleWrite{To::kUpdate, "[w]:10%"}, ConsoleWrite{To::kUpdate, ""},
                          ConsoleWrite{To::kLines, "[w]:20%\n"}));
}

TEST_F(StreamOutputTest, UnfinishedLineThatReplacesAnUpdateIsTheNextOne) {
  StreamOutput stream(Terminal());
  stream.OnBytes("\r10%", kStart);
  EXPECT_THAT(stream.OnTime(kStart + StreamOutput::kPromptAfter, kStart).console,
              ElementsAre(ConsoleWrite{To::kUpdate, "[w]:10%"}));
}

TEST_F(StreamOutputTest, LinesWrapUnlessTheirBeginningIsShown) {
  StreamRules rules = Terminal();
  rules.breaks_lines = true;
  StreamOutput stream(rules);
  stream.OnBytes("one", kStart);
  stream.OnTime(kStart + StreamOutput::kPromptAfter, kStart);
  EXPECT_THAT(stream.OnBytes("\ntwo\nthree\n", kStart).console,
              ElementsAre(ConsoleWrite{To::kLines, "[w]:one\n", 7},
                          ConsoleWrite{To::kLines, "[w]:two\n[w]:three\n", 0, true}));
}

TEST_F(StreamOutputTest, FileGetsAnUpdateNowAndThen) {
  StreamRules rules = Plain();
  rules.thins_updates = true;
  StreamOutput stream(rules);
  EXPECT_EQ(stream.OnBytes("\x1b[1mstep 1\x1b[0m\rstep 2\rstep 3\r", kStart).file, "step 1\n");
  EXPECT_EQ(stream.OnBytes("step 4\r", kStart + milliseconds(4999)).file, "");
  const TimePoint later = kStart + milliseconds(5000);
  EXPECT_EQ(stream.OnBytes("step 5\rdone\nrest", later).file, "step 4\ndone\n");
  EXPECT_EQ(stream.OnEnd(later).file, "rest");
}

/// Every input of up to six bytes, in every division into pieces, for streams of every kind.
TEST_F(StreamOutputTest, DivisionOfTheInputChangesNothing) {
  constexpr std::string_view kBytes = "a\r\n";
  for (const StreamRules& rules : AllRules()) {
    for (size_t size = 1; size <= 6; ++size) {
      size_t inputs = 1;
      for (size_t i = 0; i < size; ++i) inputs *= kBytes.size();
      for (size_t number = 0; number < inputs; ++number) {
        std::string input;
        for (size_t i = 0, rest = number; i < size; ++i, rest /= kBytes.size())
          input += kBytes[rest % kBytes.size()];
        const Written whole = Play(rules, {input});
        for (size_t cuts = 1; cuts < size_t{1} << (size - 1); ++cuts) {
          std::vector<std::string> pieces(1);
          for (size_t i = 0; i < size; ++i) {
            pieces.back() += input[i];
            if (i + 1 < size && (cuts >> i & 1) != 0) pieces.emplace_back();
          }
          ASSERT_EQ(Play(rules, pieces), whole) << absl::CEscape(input) << ", cuts " << cuts;
        }
      }
    }
  }
}

/// Long random outputs with escapes and lines beyond the splitter's bound.
TEST_F(StreamOutputTest, RandomDivisionOfRandomOutputChangesNothing) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  SCOPED_TRACE(absl::StrCat("MTRUN_SEED=", seed));
  std::mt19937_64 random(seed);
  const std::vector<StreamRules> all = AllRules();
  for (int round = 0; round < 300; ++round) {
    const StreamRules& rules = all[random() % all.size()];
    std::string output;
    for (uint64_t i = random() % 30; i > 0; --i) {
      const std::string texts[] = {"ab", "\r", "\n", "\r\n", "\x1b[1m", std::string(1, '\0'), "50%\r"};
      output +=
          random() % 40 == 0 ? std::string(random() % 200'000, 'x') : texts[random() % std::size(texts)];
    }
    std::vector<std::string> pieces;
    for (size_t at = 0; at < output.size();) {
      const size_t size = 1 + random() % (random() % 2 == 0 ? 5 : 100'000);
      pieces.push_back(output.substr(at, size));
      at += size;
    }
    ASSERT_TRUE(Play(rules, pieces) == Play(rules, {output})) << "round " << round;
  }
}

/// Prompts appear between the pieces; Written checks that each continues what the console shows.
TEST_F(StreamOutputTest, LinesAreTheSameWithPrompts) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    StreamOutput stream(Terminal());
    std::string output;
    Written written;
    for (int i = 0; i < 12; ++i) {
      const std::string bytes(1, "ab\r\n"[random() % 4]);
      output += bytes;
      written.Add(stream.OnBytes(bytes, kStart));
      if (random() % 2 == 0) written.Add(stream.OnTime(kStart + StreamOutput::kPromptAfter, kStart));
    }
    written.Add(stream.OnEnd(kStart));
    ASSERT_EQ(written.lines, Play(Terminal(), {output}).lines) << absl::CEscape(output);
    ASSERT_EQ(written.update, "");
  }
}

/// The console is a file or a pipe: no text can be rewritten there.
class StreamOutputToFileTest : public StreamOutputTest {
 protected:
  void Bytes(std::string_view bytes) { written_.Add(stream_.OnBytes(bytes, now_)); }
  /// Lets the time pass, as the shell does: it calls OnTime when that is due.
  void Pass(Duration time) {
    const TimePoint until = now_ + time;
    for (std::optional<TimePoint> due; (due = stream_.Due(now_)) && *due <= until;) {
      now_ = std::max(now_, *due);
      written_.Add(stream_.OnTime(now_, now_));
    }
    now_ = until;
  }
  void End() { written_.Add(stream_.OnEnd(now_)); }

  StreamOutput stream_{Plain()};
  TimePoint now_ = kStart;
  Written written_;
};

TEST_F(StreamOutputToFileTest, UpdateAppearsAsALineEveryTwoSeconds) {
  for (int i = 0; i < 80; ++i) {
    Bytes(absl::StrCat("\r", i, "%"));
    Pass(milliseconds(100));
  }
  EXPECT_EQ(written_.lines, "[w]:1%\n[w]:21%\n[w]:41%\n[w]:61%\n");
  End();
  EXPECT_EQ(written_.lines, "[w]:1%\n[w]:21%\n[w]:41%\n[w]:61%\n[w]:79%\n");
}

TEST_F(StreamOutputToFileTest, UpdatesThatEndInACarriageReturnAppearToo) {
  for (int i = 0; i < 30; ++i) {
    Bytes(absl::StrCat(i, "%\r"));
    Pass(milliseconds(100));
  }
  End();
  EXPECT_EQ(written_.lines, "[w]:1%\n[w]:21%\n[w]:29%\n");
}

TEST_F(StreamOutputToFileTest, OtherLinesReplaceUpdates) {
  for (int i = 0; i < 10; ++i) {
    Bytes(absl::StrCat("loss ", i, "\n\r", i, "%\r"));
    Pass(milliseconds(1900));
  }
  EXPECT_THAT(written_.lines, testing::Not(testing::HasSubstr("%")));
  Pass(milliseconds(100));
  EXPECT_THAT(written_.lines, testing::EndsWith("[w]:loss 9\n[w]:9%\n"));
}

TEST_F(StreamOutputToFileTest, LastStateIsWrittenOnce) {
  Bytes("\r99%");
  Bytes("\r100%\n");
  Bytes("\r50%");
  Pass(milliseconds(3000));
  Bytes("\n");
  End();
  EXPECT_EQ(written_.lines, "[w]:100%\n[w]:50%\n") << "the second newline adds nothing";
}

TEST_F(StreamOutputToFileTest, DotsAppearOnceAndTheLineStaysWhole) {
  Bytes("loading ");
  for (int i = 0; i < 5; ++i) {
    Bytes(".");
    Pass(milliseconds(1000));
  }
  Bytes(" done\n");
  EXPECT_EQ(written_.lines, "[w]:loading .\n[w]:..\n[w]:..\n[w]:loading ..... done\n");
}

TEST_F(StreamOutputToFileTest, LineInPiecesIsNotCutUp) {
  Bytes("loss ");
  Pass(milliseconds(100));
  Bytes("0.5");
  Pass(milliseconds(50));
  Bytes("\n");
  Pass(milliseconds(5000));
  EXPECT_EQ(written_.lines, "[w]:loss 0.5\n");
}

TEST_F(StreamOutputToFileTest, EmptyStatesAreIgnored) {
  Bytes("\r50%");
  Pass(milliseconds(200));
  Bytes("\r    \r");  // the program clears its bar
  Pass(milliseconds(9000));
  End();
  EXPECT_EQ(written_.lines, "[w]:50%\n");
}

TEST_F(StreamOutputToFileTest, SameStateIsNotRepeated) {
  for (int i = 0; i < 20; ++i) {
    Bytes("\r\x1b[1m50%\x1b[0m");
    Pass(milliseconds(1000));
  }
  EXPECT_EQ(written_.lines, "[w]:50%\n");
}

/// Whatever arrives when: complete lines keep their text and order, unfinished text is hidden for at most two
/// seconds, and less than one line in two seconds is added.
TEST_F(StreamOutputToFileTest, RandomWalkKeepsAllLinesAndHidesNothingForLong) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t first = given != nullptr ? std::stoull(given) : std::random_device()();
  for (uint64_t seed = first; seed < first + 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("MTRUN_SEED=", seed));
    std::mt19937_64 random(seed);
    stream_ = StreamOutput(Plain());
    written_ = Written();
    now_ = kStart;
    std::string input;
    for (int i = 0; i < 40; ++i) {
      const std::string texts[] = {absl::StrCat("x", i), absl::StrCat("y", i), "\r", "\n", "\r\n"};
      const std::string& text = texts[random() % std::size(texts)];
      input += text;
      const auto lines_before = std::count(written_.lines.begin(), written_.lines.end(), '\n');
      Bytes(text);
      const auto own = std::count(written_.lines.begin(), written_.lines.end(), '\n') - lines_before;
      const auto wait = milliseconds(random() % 5000);
      Pass(wait);
      const auto all = std::count(written_.lines.begin(), written_.lines.end(), '\n') - lines_before;
      ASSERT_LE(all - own, 1) << "nothing new arrived";
      if (wait >= milliseconds(2000)) {
        const std::string unfinished = input.substr(input.find_last_of("\r\n") + 1);
        EXPECT_THAT(written_.lines, testing::HasSubstr(unfinished.empty() ? "" : text));
      }
    }
    End();
    std::vector<std::string> seen = absl::StrSplit(written_.lines, '\n');
    size_t at = 0;
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(Play(Plain(), {input}).lines, '\n'))) {
      while (at < seen.size() && seen[at] != line) ++at;
      ASSERT_LT(at, seen.size()) << line << " is missing in\n" << written_.lines;
    }
  }
}

}  // namespace
}  // namespace mtrun::launcher
