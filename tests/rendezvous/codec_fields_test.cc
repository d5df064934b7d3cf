// Checks every row of every message's list of fields, including future ones: it is transferred, and the wire
// message has no other fields.
#include "rendezvous/wire/codec_fields.h"

#include <algorithm>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/rendezvous.pb.h"
#include "rendezvous/wire/validate.h"

namespace mtrun::rendezvous {
namespace {

/// Sets each field to a value within its bounds that differs, if the bounds allow it, from all others and
/// from the default.
class Filler {
 public:
  template <HasFields Message>
  Message Make() {
    Message message;
    Message::Fields(
        message, [&]<typename T, typename Bound = Unbound>(const char*, T& value, Bound bound = {}) {
          Fill(value, bound);
        });
    return message;
  }

 private:
  int64_t Number(const Range& range) { return std::min(range.high, range.low + ++number_); }
  int64_t Number(const Unbound&) { return ++number_; }

  template <typename T, typename Bound>
  void Fill(T& value, const Bound& bound) {
    if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(Number(bound));
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(Number(bound)) / 2;
    } else if constexpr (std::is_same_v<T, Duration>) {
      value = Duration(Number(bound));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = absl::StrCat("text ", ++number_);
    } else if constexpr (std::is_same_v<T, Generation>) {
      value = Generation{static_cast<uint64_t>(++number_), ~uint64_t{0}};
    } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      value = {{"key", std::string("\0\xff", 2)}, {"other", ""}};
    } else {
      value = Make<T>();
    }
  }
  template <typename T, typename Bound>
  void Fill(std::optional<T>& value, const Bound& bound) {
    Fill(value.emplace(), bound);
  }
  /// Sets the last alternative.
  template <typename... Ts>
  void Fill(std::variant<std::monostate, Ts...>& value, const Unbound& bound) {
    Fill(value.template emplace<sizeof...(Ts)>(), bound);
  }
  template <typename T, typename Bound>
  void Fill(std::vector<T>& values, const Bound&) {
    values.resize(2);
    for (T& value : values) Fill(value, Unbound{});
  }

  int64_t number_ = 0;
};

template <HasFields Message>
std::set<std::string> Rows() {
  std::set<std::string> names;
  Message message;
  Message::Fields(message, [&]<typename T>(const char* name, T&, auto...) {
    EXPECT_TRUE(names.insert(absl::StrCat(name, std::is_same_v<T, Duration> ? "_ns" : "")).second) << name;
  });
  return names;
}

/// `beside`: fields that the codec handles itself.
template <HasFields Message, typename WireMessage>
void Travels(const std::set<std::string>& beside = {}) {
  const std::string what = WireMessage::descriptor()->name();
  const Message message = Filler().Make<Message>();
  EXPECT_TRUE(Validate(message).ok()) << what << ": " << Validate(message);
  WireMessage out, in;
  codec::Encode(message, &out);
  ASSERT_TRUE(in.ParseFromString(out.SerializeAsString())) << what;
  Message back;
  codec::Decode(in, &back);
  EXPECT_EQ(back, message) << what << "\n" << in.DebugString();
  std::set<std::string> names = Rows<Message>();
  names.insert(beside.begin(), beside.end());
  for (int i = 0; i < WireMessage::descriptor()->field_count(); ++i) {
    const auto* const oneof = WireMessage::descriptor()->field(i)->real_containing_oneof();
    if (oneof != nullptr) names.insert(oneof->name());  // once for each of its fields
    const std::string name = oneof != nullptr ? oneof->name() : WireMessage::descriptor()->field(i)->name();
    EXPECT_EQ(names.erase(name), 1u) << what << "." << name << " has no row";
  }
  EXPECT_TRUE(names.empty()) << what << " has no " << *names.begin();
}

/// Checks that each alternative is encoded as the field of `oneof` at its index.
template <typename Message, typename... Ts>
void EachIsEncoded(const google::protobuf::OneofDescriptor& oneof, std::variant<Ts...> Message::*member) {
  ASSERT_EQ(oneof.field_count(), (0 + ... + (HasFields<Ts> ? 1 : 0)));
  Filler filler;
  const auto travels = [&]<typename T>(std::type_identity<T>) {
    Message message, back;
    if constexpr (HasFields<T>) message.*member = filler.Make<T>();
    const auto wire = std::unique_ptr<codec::Wire>(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(oneof.containing_type())->New());
    codec::Encode(message, wire.get());
    codec::Decode(*wire, &back);
    EXPECT_EQ(back, message) << wire->DebugString();
  };
  (travels(std::type_identity<Ts>()), ...);
}

TEST(CodecFields, EveryAlternativeIsEncoded) {
  EachIsEncoded(*wire::ControlCall::descriptor()->FindOneofByName("what"), &ControlCall::what);
  EachIsEncoded(*wire::Cause::descriptor()->FindOneofByName("kind"), &Cause::kind);
  EachIsEncoded(*wire::AgentEvent::descriptor()->FindOneofByName("event"), &AgentSaid::event);
}

TEST(CodecFields, AlternativeOfAnotherVersionIsUnknown) {
  wire::Cause newer;
  newer.set_name("node1");
  Cause cause{"", "", NodeJoined()};
  codec::Decode(newer, &cause);
  EXPECT_TRUE(Validate(cause).ok());
  EXPECT_NE(Describe(cause), "");
  newer.mutable_node_lost()->set_how(99);
  codec::Decode(newer, &cause);
  EXPECT_TRUE(Validate(cause).ok());
  EXPECT_EQ(Describe(cause), "node1 is lost: for a reason that this version of mtrun does not know");
}

TEST(CodecFields, EveryFieldOfEveryMessageIsEncoded) {
  Travels<HelloData, wire::Hello>({"protocol"});
  Travels<Heartbeat, wire::Heartbeat>();
  Travels<JobSettings, wire::JobSettings>();
  Travels<OfferSent, wire::Offer>({"held"});
  Travels<Member, wire::Member>();
  Travels<Assignment, wire::Assignment>({"packed"});
  Travels<WorkerFailure, wire::WorkerFailure>();
  Travels<JobOutcome, wire::JobOutcome>();
  Travels<WorkerFailed, wire::WorkerFailed>();
  Travels<WorkersFinished, wire::WorkersFinished>();
  Travels<Leaving, wire::Leaving>();
  Travels<StoreSet, wire::StoreSet>();
  Travels<StoreRead, wire::StoreRead>();
  Travels<CollectivesBroken, wire::CollectivesBroken>();
  Travels<PeerUnreached, wire::PeerUnreached>();
  Travels<StepsCommitted, wire::StepsCommitted>();
  Travels<GenerationDissolved, wire::Dissolved>();
  Travels<Refused, wire::Refused>();
  Travels<Cause, wire::Cause>();
  Travels<WorkerDied, wire::WorkerDied>();
  Travels<WorkerStuck, wire::WorkerStuck>();
  Travels<NodeUnfit, wire::NodeUnfit>();
  Travels<NodeLost, wire::NodeLost>();
  Travels<NodeLeft, wire::NodeLeft>();
  Travels<NodeGrown, wire::NodeGrown>();
  Travels<NewerGeneration, wire::NewerGeneration>();
  Travels<GenerationOver, wire::GenerationOver>();
  Travels<NodeEvicted, wire::NodeEvicted>();
  Travels<NodesSeparated, wire::NodesSeparated>();
  Travels<SettingsDiffer, wire::SettingsDiffer>();
  Travels<RunReplaced, wire::RunReplaced>();
  Travels<NotServed, wire::NotServed>();
  Travels<StoreReply, wire::StoreReply>();
  Travels<Redirect, wire::Redirect>();
  Travels<BudgetChanged, wire::BudgetChanged>();
  Travels<Lease, wire::Lease>();
  Travels<Requester, wire::Requester>();
  Travels<ControlCall, wire::ControlCall>();
  Travels<DrainCall, wire::DrainCall>();
  Travels<EvictCall, wire::EvictCall>();
  Travels<StopCall, wire::StopCall>();
  Travels<LogRequest, wire::LogRequest>();
  Travels<LogPart, wire::LogPart>();
  Travels<NodeUse, wire::NodeUse>();
  Travels<UseAsked, wire::UseAsked>();
  Travels<WatchedNode, wire::WatchedNode>();
  Travels<Happening, wire::Happening>();
  Travels<NodeView, wire::NodeStatus>();
  Travels<JobView, wire::JobStatus>();
}

TEST(CodecFields, TextIsTruncatedToItsBound) {
  wire::Leaving leaving;
  codec::Encode(Leaving{std::string(kMaxText + 1, '\xff')}, &leaving);
  EXPECT_EQ(leaving.why().detail(), std::string(kMaxText, '\xff'));
  Offer offer;
  offer.host = std::string(kMaxName + 1, '\xff');
  wire::Offer out;
  codec::Encode(offer, &out);
  EXPECT_EQ(out.host(), std::string(kMaxName, '?'));
  wire::StoreSet store;
  codec::Encode(StoreSet{{}, "key", std::string(1 << 20, 'v')}, &store);
  EXPECT_EQ(store.value().size(), size_t{1} << 20);
}

TEST(CodecFields, UnknownFieldNameAborts) {
  EXPECT_DEATH(codec::ColumnOf(*wire::Offer::descriptor(), "colour"),
               "Offer in rendezvous.proto has no field colour");
}

}  // namespace
}  // namespace mtrun::rendezvous
