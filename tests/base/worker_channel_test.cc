#include "base/worker_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/support/status.h"

namespace mtrun::channel {
namespace {

using testing::HasSubstr;

const Generation kGeneration{7, 0xabcdef0123456789ull};

std::vector<WorkerMessage> WorkerMessages() {
  return {Hello{1, 4711, 3, true},
          Ready{kGeneration},
          Progress{2, 300, 4800},
          StoreSet{"addr/0", std::string("\x00\xff binary \n", 11)},
          StoreGet{1, {"a", "b"}},
          StoreWait{2, {}},
          StoreSet{"k", "v", kGeneration},
          StoreGet{3, {"k"}, kGeneration},
          StoreWait{4, {"k"}, kGeneration},
          Broken{kGeneration, "rank 2 was reset"},
          Waiting{kGeneration, 2.5},
          Waiting{kGeneration, 5.5, 3},
          Done{12345678901},
          Done{5, kGeneration},
          Leaving{"pre-empted \"soon\""},
          DataKeyRequest{}};
}

std::vector<AgentMessage> AgentMessages() {
  return {Assignment{kGeneration, 3, 1, 8, 4, 1, {{"node1", "10.0.0.1", 0, 4}, {"node2", "10.0.0.2", 4, 4}}},
          Dissolved{kGeneration, "node2 lost"},
          Dissolved{kGeneration, "node3 joins", true},
          Drain{12.5, "SIGTERM"},
          Stop{"job over", true},
          Stop{"job failed"},
          Stop{"told to go", false, true},
          StoreValues{2, {{"a", std::string("\x01\x00", 2)}, {"b", ""}}, ""},
          DataKeyReply{"secret.pin"}};
}

std::string WithoutNewline(std::string line) {
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  EXPECT_EQ(line.find('\n'), std::string::npos);
  return line;
}

TEST(WorkerChannel, EveryMessageRoundTrips) {
  for (const WorkerMessage& message : WorkerMessages()) {
    EXPECT_EQ(*DecodeWorkerMessage(WithoutNewline(Encode(message))), message);
  }
  for (const AgentMessage& message : AgentMessages()) {
    EXPECT_EQ(*DecodeAgentMessage(WithoutNewline(Encode(message))), message);
  }
}

TEST(WorkerChannel, StoreValuesCanBeAnyBytes) {
  EXPECT_TRUE(rc::check([](const std::string& value) {
    const auto decoded = DecodeWorkerMessage(WithoutNewline(Encode(WorkerMessage(StoreSet{"k", value}))));
    RC_ASSERT(decoded.ok());
    RC_ASSERT(std::get<StoreSet>(*decoded).value == value);
  }));
}

TEST(WorkerChannel, ErrorNamesAMissingField) {
  EXPECT_THAT(std::string(DecodeWorkerMessage(R"({"type":"hello","protocol":1})").status().message()),
              HasSubstr("hello: field \"pid\" is missing"));
  EXPECT_THAT(
      std::string(DecodeAgentMessage(R"({"type":"assignment","generation":"1.0"})").status().message()),
      HasSubstr("assignment: field \"rank\" is missing"));
}

TEST(WorkerChannel, ErrorNamesAWrongType) {
  EXPECT_THAT(std::string(DecodeWorkerMessage(R"({"type":"done","step":"many"})").status().message()),
              HasSubstr("done: field \"step\" is not a whole number"));
  EXPECT_THAT(
      std::string(DecodeWorkerMessage(R"({"type":"store_set","key":"k","value":"***"})").status().message()),
      HasSubstr("not base64"));
  EXPECT_THAT(std::string(DecodeWorkerMessage(R"({"type":"ready","generation":"seven"})").status().message()),
              HasSubstr("is not a generation"));
  EXPECT_THAT(std::string(DecodeWorkerMessage(R"({"type":"fly"})").status().message()),
              HasSubstr("unknown message type \"fly\""));
}

TEST(WorkerChannel, StepTimesCanIncludeALoss) {
  const WorkerMessage told = StepTimes{3, 0.5, 0.25, 1.5, 0.01};
  EXPECT_EQ(*DecodeWorkerMessage(WithoutNewline(Encode(told))), told);
  EXPECT_EQ(
      *DecodeWorkerMessage(R"({"type":"step_times","step":3,"data_seconds":0.5,"exchange_seconds":0.25})"),
      WorkerMessage(StepTimes{3, 0.5, 0.25}));
  const WorkerMessage all =
      StepTimes{.step = 3, .accuracy = 0.5, .epoch = 1, .epochs = 2, .total_steps = 9, .run = "r"};
  EXPECT_EQ(*DecodeWorkerMessage(WithoutNewline(Encode(all))), all);
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(*DecodeWorkerMessage(WithoutNewline(Encode(WorkerMessage(StepTimes{.loss = no_number})))),
            WorkerMessage(StepTimes{}));
}

/// Older agents send no more than this.
TEST(WorkerChannel, StopCanOmitTheWork) {
  EXPECT_EQ(*DecodeAgentMessage(R"({"type":"stop","why":"x"})"), AgentMessage(Stop{"x", false}));
}

TEST(WorkerChannel, ImplausibleProgressIsNamed) {
  constexpr int64_t kMax = int64_t{1} << 53;
  EXPECT_EQ(Implausible({0, 0, -1}), "");
  EXPECT_EQ(Implausible({-1, kMax, kMax}), "");
  EXPECT_EQ(Implausible({0, -1, 0}), "step -1");
  EXPECT_EQ(Implausible({-2, 0, 0}), "epoch -2");
  EXPECT_EQ(Implausible({0, kMax + 1, 0}), absl::StrCat("step ", kMax + 1));
  EXPECT_EQ(Implausible({0, 0, int64_t{1} << 60}), absl::StrCat("samples ", int64_t{1} << 60));
}

TEST(WorkerChannel, UnknownExtraFieldsAreIgnored) {
  EXPECT_EQ(*DecodeWorkerMessage(R"({"type":"done","step":3,"new":true})"), WorkerMessage(Done{3}));
}

// Random damage to real lines gives an error or a message, never a crash.
TEST(WorkerChannel, DamagedLinesNeverCrash) {
  const char* given = std::getenv("MTRUN_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  SCOPED_TRACE(testing::Message() << "MTRUN_SEED=" << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<WorkerMessage> messages = WorkerMessages();
    std::string line = Encode(messages[random() % messages.size()]);
    for (unsigned n = random() % 4 + 1; n > 0; --n)
      line[random() % line.size()] = static_cast<char>(random());
    if (random() % 4 == 0) line.resize(random() % line.size());
    refused += DecodeWorkerMessage(line).ok() ? 0 : 1;
    DecodeAgentMessage(line).IgnoreError();
  }
  EXPECT_GT(refused, 1000);
}

TEST(Generation, TextRoundTripAndOrder) {
  EXPECT_EQ(ToText(kGeneration), "7.abcdef0123456789");
  EXPECT_EQ(*ParseGeneration(ToText(kGeneration)), kGeneration);
  EXPECT_LT((Generation{1, 9}), (Generation{2, 0}));
  for (const char* bad : {"", "7", ".", "x.1", "7.zz", "-7.1", "7.1 2"}) {
    EXPECT_THAT(ParseGeneration(bad),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  absl::StrCat("\"", bad, "\" is not a generation (number.hexadecimal id)")));
  }
}

}  // namespace
}  // namespace mtrun::channel
