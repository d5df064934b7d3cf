#include "rendezvous/wire/codec.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/rendezvous.pb.h"
#include "rendezvous/wire/validate_assignment.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

Offer SomeOffer() {
  Offer offer;
  offer.node_id = "node1-12-ab";
  offer.host = "node1";
  offer.address = "10.0.0.1";
  offer.workers = 4;
  offer.node_rank = 2;
  offer.master_port = 29500;
  offer.presence_port = 40001;
  offer.presence_id = 0xFEDCBA9876543210ull;
  offer.role = "trainer";
  offer.holds = Generation{3, 0xFFFFFFFFFFFFFFFFull};
  return offer;
}

WorkerFailure SomeFailure() {
  return {"node2", 5, 1, 4711, 0, 9, "/logs/1/stderr.log", "two\nlines", "2026-11-21", true};
}

Assignment SomeAssignment() { return MakeAssignment(Generation{3, 0xFFFFFFFFFFFFFFFFull}, {SomeOffer()}, 2); }

/// Has enough members to be packed.
Assignment LargeAssignment() {
  std::vector<Offer> offers(40, SomeOffer());
  for (size_t i = 0; i < offers.size(); ++i) {
    offers[i].host = absl::StrCat("node", i);
    offers[i].node_id = absl::StrCat(offers[i].host, "-12-ab");
    offers[i].presence_id += i;
  }
  return MakeAssignment(Generation{4, 7}, offers, 2);
}

AgentSaid RoundTrip(const AgentSaid& said) {
  const auto decoded = DecodeAgentEvent(EncodeAgentEvent(7, said));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.value_or(AgentSaid{});
}

TEST(Codec, AgentEventsRoundTrip) {
  const Generation generation{3, 1};
  const std::vector<AgentSaid> all = {
      {OfferSent{SomeOffer(), Generation{2, 5}}, SomeAssignment()},
      {OfferSent{SomeOffer(), Generation{2, 5}}, LargeAssignment()},
      {WorkerFailed{generation, SomeFailure()}, {}},
      {WorkersFinished{generation, true}, {}},
      {Leaving{"SIGTERM"}, {}},
      {StoreSet{generation, std::string("k\0y", 3), std::string("\xff\0", 2)}, {}},
      {StoreRead{generation, 8, {"a", "b"}, false}, {}},
      {StepsCommitted{generation, 12345678901}, {}},
      {PeerUnreached{generation, 5, 3}, {}},
      {CollectivesBroken{generation, 5, "reset by peer"}, {}},
  };
  for (const AgentSaid& said : all) EXPECT_EQ(RoundTrip(said), said) << Describe(said.event);
  AgentSaid fresh{OfferSent{SomeOffer()}, {}};
  std::get<OfferSent>(fresh.event).offer.node_rank.reset();
  std::get<OfferSent>(fresh.event).offer.holds.reset();
  EXPECT_EQ(RoundTrip(fresh), fresh);
}

TEST(Codec, OfferOfTheRunningGenerationIsDecodedWithoutMembership) {
  const AgentSaid said{OfferSent{SomeOffer(), Generation{2, 5}}, SomeAssignment()};
  const wire::AgentEvent event = EncodeAgentEvent(7, said);
  Assignment runs = SomeAssignment();
  const AgentSaid without{said.event, std::nullopt};
  EXPECT_EQ(DecodeAgentEvent(event, &runs).value_or(AgentSaid{}), without);
  runs.incarnation = 7;
  EXPECT_EQ(DecodeAgentEvent(event, &runs).value_or(AgentSaid{}), said) << "another run's";
  runs = SomeAssignment();
  ++runs.generation.number;
  EXPECT_EQ(DecodeAgentEvent(event, &runs).value_or(AgentSaid{}), said) << "another generation";
  runs = SomeAssignment();
  runs.earlier = {{Generation{1, 4}, {}, {}, {}}};
  EXPECT_EQ(DecodeAgentEvent(event, &runs).value_or(AgentSaid{}), said)
      << "it has heard that none can be followed";
}

TEST(Codec, ServiceEventsRoundTrip) {
  const std::vector<ServiceEvent> all = {
      Assigned{SomeAssignment()},
      Assigned{LargeAssignment()},
      GenerationDissolved{Generation{3, 1}, {"node2-7-a", "node2", NodeJoined()}, 2, 1, /*graceful=*/true},
      JobEnded{JobOutcome{false, 137, "rank 5", SomeFailure()}},
      JobEnded{JobOutcome{true, 0, "fine", std::nullopt}},
      Refused{{"", "", NotServed{"no"}}},
      Waiting{"spare"},
      Redirect{"node2:29400", "it has generation 4"},
      BudgetChanged{7, 4},
      Membership{Assigned{SomeAssignment()}},
      Membership{Assigned{LargeAssignment()}},
      ControlCall{DrainCall{"node2", true}, {"anna", "login1", 4711, "10.0.0.7:4242"}},
      StoreReply{Generation{3, 1}, 8, {{"a", std::string("\0", 1)}}, "gone"},
  };
  for (const ServiceEvent& event : all) {
    const auto decoded = DecodeServiceEvent(EncodeServiceEvent(1, event));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, event) << Describe(event);
  }
}

HelloData SomeHello() {
  HelloData hello;
  hello.node_id = "node1";
  hello.session_id = 1;
  hello.service_id = 2;
  hello.opened.settings.max_restarts = 5;
  hello.opened.settings.refund_steps = 100;
  hello.opened.settings.endpoints = {"node1:29400", "node2:29400"};
  hello.opened.settings.takeover_any = true;
  hello.opened.settings.version = "0.2.0";
  hello.opened.seen = Generation{4, 9};
  hello.opened.seen_restarts = 3;
  hello.opened.seen_refunds = 2;
  hello.opened.last = SomeAssignment();
  return hello;
}

TEST(Codec, HelloRoundTrips) {
  const auto hello = DecodeHello(EncodeHello(SomeHello()));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->node_id, "node1");
  EXPECT_EQ(hello->opened, SomeHello().opened);
  HelloData of_many = SomeHello();
  of_many.opened.last = LargeAssignment();
  const auto decoded = DecodeHello(EncodeHello(of_many));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->opened, of_many.opened);
}

TEST(Codec, HelloWithAnInvalidMembershipIsRefused) {
  HelloData hello = SomeHello();
  hello.opened.last->members[0].first_rank = 7;
  EXPECT_THAT(std::string(DecodeHello(EncodeHello(hello)).status().message()), HasSubstr("not contiguous"));
  hello.opened.last = LargeAssignment();
  hello.opened.last->members[1].node_id = hello.opened.last->members[0].node_id;
  EXPECT_THAT(std::string(DecodeHello(EncodeHello(hello)).status().message()), HasSubstr("twice"));
}

TEST(Codec, OlderServiceReadsStoredMembership) {
  wire::Assignment written;
  ASSERT_TRUE(written.ParseFromString(EncodeMembership(LargeAssignment())));
  EXPECT_EQ(written.members_size(), 40);
  EXPECT_FALSE(written.has_packed());
  const auto read = DecodeMembership(EncodeMembership(LargeAssignment()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, LargeAssignment());
}

TEST(Codec, OtherProtocolVersionIsNamedInTheError) {
  wire::Hello hello = EncodeHello(SomeHello());
  hello.set_protocol(99);
  const auto decoded = DecodeHello(hello);
  EXPECT_TRUE(absl::IsFailedPrecondition(decoded.status()));
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("same version of mtrun"));
}

TEST(Codec, ErrorNamesSettingsOutOfRange) {
  const auto error = [](void (*spoil)(wire::JobSettings*)) {
    wire::Hello hello = EncodeHello(SomeHello());
    spoil(hello.mutable_settings());
    return std::string(DecodeHello(hello).status().message());
  };
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_min_nodes(0); }), HasSubstr("min_nodes is 0"));
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_min_nodes(2); }), HasSubstr("min_nodes is 2, 1 to 1"));
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_heartbeat_interval_ns(0); }),
              HasSubstr("heartbeat_interval"));
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_join_timeout_ns(INT64_MAX); }),
              HasSubstr("join_timeout"));
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_job_id(""); }), HasSubstr("job_id"));
  EXPECT_THAT(error([](wire::JobSettings* s) { s->set_max_restarts(-1); }), HasSubstr("max_restarts"));
}

TEST(Codec, ErrorNamesOfferFieldsOutOfRange) {
  const auto error = [](void (*spoil)(wire::Offer*)) {
    wire::AgentEvent event = EncodeAgentEvent(1, AgentSaid{OfferSent{SomeOffer()}, SomeAssignment()});
    spoil(event.mutable_offer());
    return DecodeAgentEvent(event).status();
  };
  EXPECT_THAT(std::string(error([](wire::Offer* o) { o->set_workers(-1); }).message()),
              HasSubstr("workers is -1"));
  EXPECT_THAT(std::string(error([](wire::Offer* o) { o->set_node_rank(-1); }).message()),
              HasSubstr("node_rank"));
  EXPECT_THAT(std::string(error([](wire::Offer* o) { o->set_master_port(70000); }).message()),
              HasSubstr("master_port"));
  EXPECT_THAT(std::string(error([](wire::Offer* o) { o->mutable_held()->set_world_size(9); }).message()),
              HasSubstr("world size"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(error([](wire::Offer* o) { o->mutable_holds()->set_number(UINT64_MAX); })));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeAgentEvent(wire::AgentEvent()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeServiceEvent(wire::ServiceEvent()).status()));
}

/// Another node's texts reach terminals, logs, and files whose lines have a meaning (.membership).
TEST(Codec, TextsOfOtherNodesHaveNoControlCharacters) {
  Offer offer = SomeOffer();
  offer.host = "node1\x1B[2J\nnode2 is lost";
  const auto offered = DecodeAgentEvent(EncodeAgentEvent(1, AgentSaid{OfferSent{offer}, {}}));
  ASSERT_TRUE(offered.ok()) << offered.status();
  EXPECT_EQ(std::get<OfferSent>(offered->event).offer.host, "node1\\x1b[2J\\nnode2 is lost");

  WorkerFailed failed;
  failed.failure.message = "line 1\n\x1B]0;title\x07 line\xff 2";
  auto said = DecodeAgentEvent(EncodeAgentEvent(1, AgentSaid{failed, {}}));
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(std::get<WorkerFailed>(said->event).failure.message, "line 1\n\\x1b]0;title\\x07 line\\xff 2");
  failed.failure.message = std::string(kMaxText, '\x1B');  // grows beyond its bound
  said = DecodeAgentEvent(EncodeAgentEvent(1, AgentSaid{failed, {}}));
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(std::get<WorkerFailed>(said->event).failure.message.size(), kMaxText);

  LogPart part;
  part.out = "\x1B[32mgreen\r\n";  // a program's own output
  said = DecodeAgentEvent(EncodeAgentEvent(1, AgentSaid{part, {}}));
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(std::get<LogPart>(said->event).out, part.out);
}

TEST(Codec, MeasuredValuesAreBroughtWithinTheirBounds) {
  NodeUse use;
  use.cpus = -1;
  use.cpu = Duration(-5);
  use.workers.resize(kMaxWorkersPerNode + 1);
  use.workers[0].samples = int64_t{1} << 60;
  use.workers[0].step = -7;
  use.workers[0].step_time = Duration(INT64_MAX);
  use.gpus.resize(1);
  use.gpus[0].busy_percent = 255;
  use.gpus[0].temperature = -300;
  const auto said = DecodeAgentEvent(EncodeAgentEvent(1, AgentSaid{use, {}}));
  ASSERT_TRUE(said.ok()) << said.status();
  const auto& got = std::get<NodeUse>(said->event);
  EXPECT_EQ(got.cpus, 0);
  EXPECT_EQ(got.cpu, Duration::zero());
  ASSERT_EQ(got.workers.size(), size_t{kMaxWorkersPerNode});
  EXPECT_EQ(got.workers[0].samples, int64_t{1} << 53);
  EXPECT_EQ(got.workers[0].step, -1);
  EXPECT_EQ(got.workers[0].step_time, Duration(kMaxNanoseconds));
  EXPECT_EQ(got.gpus[0].busy_percent, 100);
  EXPECT_EQ(got.gpus[0].temperature, -1);
}

TEST(Codec, AskingServiceWithAnImpossibleGenerationIsAMereClient) {
  PeerService peer;
  peer.endpoint = "10.0.0.1:29400";
  peer.generation.number = kMaxGenerationNumber;
  EXPECT_EQ(DecodeAsking(EncodeAsking("job", peer)).last_number, kMaxGenerationNumber);
  ++peer.generation.number;
  EXPECT_TRUE(DecodeAsking(EncodeAsking("job", peer)).endpoint.empty());
}

TEST(Codec, InvalidUtf8InNamesIsReplaced) {
  Offer offer = SomeOffer();
  offer.host =
      "n\xf6"
      "de";
  const AgentSaid said = RoundTrip(AgentSaid{OfferSent{offer}, {}});
  EXPECT_EQ(std::get<OfferSent>(said.event).offer.host, "n?de");
}

TEST(Codec, Utf8NamesAreUnchanged) {
  Offer offer = SomeOffer();
  offer.host = "t\xC3\xA4st \xE5\xAE\x9E\xE9\xAA\x8C";
  const AgentSaid said = RoundTrip(AgentSaid{OfferSent{offer}, {}});
  EXPECT_EQ(std::get<OfferSent>(said.event).offer.host, offer.host);
  // Cut between two characters: 85 of three bytes each make 255.
  offer.role.clear();
  for (int i = 0; i < 100; ++i) offer.role += "\xE5\xAE\x9E";
  const AgentSaid cut = RoundTrip(AgentSaid{OfferSent{offer}, {}});
  EXPECT_EQ(std::get<OfferSent>(cut.event).offer.role, offer.role.substr(0, 255));
}

TEST(Codec, MalformedBytesNeverCrash) {
  const char* given = std::getenv("MTRUN_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : RandomBits();
  std::cout << "MTRUN_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  const std::string good =
      EncodeAgentEvent(3, AgentSaid{OfferSent{SomeOffer()}, SomeAssignment()}).SerializeAsString();
  size_t decoded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    wire::AgentEvent event;
    if (!event.ParseFromString(bytes)) continue;
    const auto said = DecodeAgentEvent(event);
    decoded += said.ok() ? 1 : 0;
    const bool holds = said.ok() && said->held;
    EXPECT_TRUE(!holds || ValidateAssignment(*said->held).ok());
  }
  EXPECT_GT(decoded, 0u);
}

TEST(Codec, StatusRoundTripsAJob) {
  JobView view;
  view.settings.job_id = "job";
  view.phase = "running";
  view.incarnation = 77;
  view.proof = RunProof::kMembers;
  NodeView& node = view.nodes.emplace_back();
  node.host = "node1";
  node.main_loop_age = std::chrono::seconds(2);
  node.note = "rank 1\nhangs";
  wire::JobStatus status;
  EncodeJobView(view, &status);
  EXPECT_EQ(DecodeJobView(status), view);
  EXPECT_EQ(status.nodes(0).main_loop_age_ns(), 2'000'000'000);
  status.mutable_nodes(0)->set_note("\x1B[2J" +
                                    std::string(kMaxText, 'x'));  // of any size: it is not checked
  EXPECT_TRUE(DecodeJobView(status).nodes[0].note.starts_with("\\x1b[2Jxx"));
  status.set_proof(99);
  EXPECT_EQ(DecodeJobView(status).proof, RunProof::kFormed);
}

TEST(Codec, HeartbeatNoteIsBounded) {
  const Heartbeat note{std::chrono::seconds(2), "rank 1 hangs"};
  EXPECT_EQ(DecodeHeartbeat(EncodeHeartbeat(note)), note);
  wire::Heartbeat wild;
  wild.set_main_loop_age_ns(-5);
  wild.set_note(std::string(1 << 20, 'x'));
  const Heartbeat tamed = DecodeHeartbeat(wild);
  EXPECT_EQ(tamed.main_loop_age, Duration::zero());
  EXPECT_LE(tamed.note.size(), size_t{1} << 16);
}

}  // namespace
}  // namespace mtrun::rendezvous
