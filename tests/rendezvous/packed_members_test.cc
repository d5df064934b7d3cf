#include "rendezvous/wire/packed_members.h"

#include <zlib.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/splitmix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

/// Returns members named like those of real mtruns.
wire::Assignment MakeMembers(int count) {
  wire::Assignment assignment;
  assignment.mutable_generation()->set_number(3);
  int first_rank = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t random = SplitMix64(static_cast<uint64_t>(i));
    wire::Member* member = assignment.add_members();
    member->set_host(absl::StrFormat("node%04d", i));
    member->set_node_id(absl::StrFormat("%s-%d-%08x", member->host(), random % 60000, random >> 32));
    member->set_address(absl::StrCat("10.0.", i / 256, ".", i % 256));
    member->set_role("default");
    member->set_node_rank(i);
    member->set_first_rank(first_rank);
    member->set_workers(1 + i % 3);
    member->set_presence_port(static_cast<int>(32768 + random % 20000));
    member->set_presence_id(random);
    member->set_service_port(static_cast<int>(32768 + random % 20001));
    first_rank += member->workers();
  }
  return assignment;
}

wire::Assignment Packed(wire::Assignment assignment) {
  PackMembers(&assignment);
  return assignment;
}

void ExpectSame(wire::Assignment packed, const wire::Assignment& plain) {
  const absl::Status unpacked = UnpackMembers(&packed);
  ASSERT_TRUE(unpacked.ok()) << unpacked;
  EXPECT_EQ(packed.SerializeAsString(), plain.SerializeAsString());
}

TEST(PackedMembers, RoundTrip) {
  for (const int count : {kFewestPacked, 100, 1000}) {
    const wire::Assignment plain = MakeMembers(count);
    const wire::Assignment packed = Packed(plain);
    EXPECT_TRUE(packed.has_packed()) << count;
    EXPECT_EQ(packed.members_size(), 0) << count;
    EXPECT_EQ(packed.generation().number(), 3u);
    ExpectSame(packed, plain);
  }
}

TEST(PackedMembers, CoverEveryField) {
  const wire::Assignment plain = MakeMembers(kFewestPacked);
  const wire::Member& member = plain.members(1);
  for (int i = 0; i < member.GetDescriptor()->field_count(); ++i) {
    const auto* field = member.GetDescriptor()->field(i);
    EXPECT_TRUE(member.GetReflection()->HasField(member, field))
        << field->name() << " has to be packed, and to be tried here";
  }
}

TEST(PackedMembers, UseFewerBytes) {
  const wire::Assignment plain = MakeMembers(1000);
  EXPECT_LT(Packed(plain).ByteSizeLong() * 5, plain.ByteSizeLong() * 2);
}

TEST(PackedMembers, SendOnlyTheNodeIdPartThatTheHostLacks) {
  wire::Assignment plain = MakeMembers(kFewestPacked);
  plain.mutable_members(0)->set_node_id("another name");
  plain.mutable_members(1)->set_node_id(plain.members(1).host());
  plain.mutable_members(2)->set_node_id("node");
  plain.mutable_members(3)->set_host("");
  ExpectSame(Packed(plain), plain);
}

TEST(PackedMembers, AreNotUsedForFewMembers) {
  EXPECT_FALSE(Packed(MakeMembers(kFewestPacked - 1)).has_packed());
  wire::Assignment plain = MakeMembers(2);
  EXPECT_TRUE(UnpackMembers(&plain).ok());
  EXPECT_EQ(plain.members_size(), 2);
}

TEST(PackedMembers, AreNotUsedForIrregularRanks) {
  wire::Assignment gap = MakeMembers(10);
  gap.mutable_members(5)->set_first_rank(77);
  EXPECT_FALSE(Packed(gap).has_packed());
  wire::Assignment places = MakeMembers(10);
  places.mutable_members(5)->set_node_rank(4);
  EXPECT_FALSE(Packed(places).has_packed());
}

std::string Deflate(const std::string& plain) {
  uLongf size = compressBound(plain.size());
  std::string deflated(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(deflated.data()), &size,
                     reinterpret_cast<const Bytef*>(plain.data()), plain.size()),
            Z_OK);
  deflated.resize(size);
  return deflated;
}

std::string WhyNot(wire::Assignment packed) { return std::string(UnpackMembers(&packed).message()); }

TEST(PackedMembers, MalformedDataIsRefused) {
  const wire::Assignment good = Packed(MakeMembers(10));
  wire::Assignment bad = good;
  bad.mutable_packed()->set_bytes(good.packed().bytes() - 1);
  EXPECT_THAT(WhyNot(bad), HasSubstr("does not unpack"));
  bad.mutable_packed()->set_bytes(good.packed().bytes() + 1);
  EXPECT_THAT(WhyNot(bad), HasSubstr("does not unpack"));
  bad.mutable_packed()->set_bytes(1u << 30);
  EXPECT_THAT(WhyNot(bad), HasSubstr("too large"));
  bad = good;
  bad.mutable_packed()->mutable_deflated()->resize(good.packed().deflated().size() / 2);
  EXPECT_THAT(WhyNot(bad), HasSubstr("does not unpack"));
  bad = good;
  bad.add_members();
  EXPECT_THAT(WhyNot(bad), HasSubstr("beside it"));
  bad = good;
  const std::string nonsense(5, '\xff');
  bad.mutable_packed()->set_bytes(5);
  bad.mutable_packed()->set_deflated(Deflate(nonsense));
  EXPECT_THAT(WhyNot(bad), HasSubstr("no columns"));
}

/// Returns the error after this change to the columns.
std::string AfterChange(const std::function<void(wire::MemberColumns&)>& change) {
  const wire::Assignment plain = MakeMembers(4);
  wire::MemberColumns columns;
  for (const wire::Member& member : plain.members()) {
    const auto add = [](const std::string& text, wire::TextColumn* column) {
      column->add_sizes(static_cast<uint32_t>(text.size()));
      column->mutable_texts()->append(text);
    };
    columns.add_shared(2);
    add("x", columns.mutable_node_id());
    add(member.host(), columns.mutable_host());
    add(member.address(), columns.mutable_address());
    add(member.role(), columns.mutable_role());
    columns.add_workers(member.workers());
    columns.add_presence_port(member.presence_port());
    columns.add_presence_id(member.presence_id());
    columns.add_service_port(member.service_port());
  }
  change(columns);
  const std::string bytes = columns.SerializeAsString();
  wire::Assignment packed;
  packed.mutable_packed()->set_bytes(static_cast<uint32_t>(bytes.size()));
  packed.mutable_packed()->set_deflated(Deflate(bytes));
  return WhyNot(packed);
}

TEST(PackedMembers, InconsistentColumnsAreRefused) {
  using Columns = wire::MemberColumns;
  EXPECT_EQ(AfterChange([](Columns&) {}), "");
  EXPECT_THAT(AfterChange([](Columns& c) { c.add_workers(1); }), HasSubstr("several lengths"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.clear_shared(); }), HasSubstr("several lengths"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.add_presence_id(1); }), HasSubstr("several lengths"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.add_presence_port(1); }), HasSubstr("several lengths"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.add_service_port(1); }), HasSubstr("several lengths"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.mutable_role()->add_sizes(0); }), HasSubstr("texts do not fit"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.mutable_host()->mutable_texts()->append("x"); }),
              HasSubstr("texts do not fit"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.mutable_address()->set_sizes(3, 4000000000u); }),
              HasSubstr("not whole"));
  EXPECT_THAT(AfterChange([](Columns& c) { c.set_shared(1, 100); }), HasSubstr("shares more"));
  EXPECT_THAT(AfterChange([](Columns& c) { (*c.mutable_role()->mutable_texts())[0] = '\xff'; }),
              HasSubstr("not valid UTF-8"));
}

TEST(PackedMembers, TooManyMembersAreRefused) {
  const std::string why = AfterChange([](wire::MemberColumns& columns) {
    while (columns.workers_size() <= kMaxNodes) {
      columns.add_shared(0);
      for (wire::TextColumn* texts : {columns.mutable_node_id(), columns.mutable_host(),
                                      columns.mutable_address(), columns.mutable_role()})
        texts->add_sizes(0);
      columns.add_workers(1);
      columns.add_presence_port(0);
      columns.add_presence_id(0);
      columns.add_service_port(0);
    }
  });
  EXPECT_THAT(why, HasSubstr("too many members"));
}

}  // namespace
}  // namespace mtrun::rendezvous
