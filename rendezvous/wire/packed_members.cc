#include "rendezvous/wire/packed_members.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/codec_fields.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {
namespace {

/// Node ids mostly begin with the host's name.
size_t CountShared(const std::string& node_id, const std::string& host) {
  const auto differ = std::mismatch(node_id.begin(), node_id.end(), host.begin(), host.end());
  return static_cast<size_t>(differ.first - node_id.begin());
}

/// True if the ranks follow from the place in the membership; then they are not sent.
bool RanksFollow(const wire::Assignment& assignment) {
  int node_rank = 0;
  int64_t first_rank = 0;
  for (const wire::Member& member : assignment.members()) {
    if (member.node_rank() != node_rank++ || member.first_rank() != first_rank) return false;
    first_rank += member.workers();
  }
  return true;
}

void Append(absl::string_view text, wire::TextColumn* column) {
  column->add_sizes(static_cast<uint32_t>(text.size()));
  column->mutable_texts()->append(text.data(), text.size());
}

wire::MemberColumns ToColumns(const wire::Assignment& assignment) {
  wire::MemberColumns columns;
  for (const wire::Member& member : assignment.members()) {
    const size_t shared = CountShared(member.node_id(), member.host());
    columns.add_shared(static_cast<uint32_t>(shared));
    Append(absl::string_view(member.node_id()).substr(shared), columns.mutable_node_id());
    Append(member.host(), columns.mutable_host());
    Append(member.address(), columns.mutable_address());
    Append(member.role(), columns.mutable_role());
    columns.add_workers(member.workers());
    columns.add_presence_port(member.presence_port());
    columns.add_presence_id(member.presence_id());
    columns.add_service_port(member.service_port());
  }
  return columns;
}

absl::Status Unreadable(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("a packed membership that cannot be read: ", why));
}

absl::StatusOr<std::vector<std::string>> TextsOf(const wire::TextColumn& column, int count) {
  if (column.sizes_size() != count) return Unreadable("texts do not fit");
  std::vector<std::string> texts;
  absl::string_view left = column.texts();
  for (const uint32_t size : column.sizes()) {
    if (size > left.size()) return Unreadable("a text is not whole");
    texts.emplace_back(left.substr(0, size));
    left.remove_prefix(size);
  }
  if (!left.empty()) return Unreadable("texts do not fit");
  return texts;
}

absl::Status FromColumns(const wire::MemberColumns& columns, wire::Assignment* assignment) {
  const int count = columns.workers_size();
  if (count > kMaxNodes || columns.shared_size() != count || columns.presence_port_size() != count ||
      columns.presence_id_size() != count || columns.service_port_size() != count)
    return Unreadable("columns of several lengths, or too many members");
  MT_ASSIGN_OR_RETURN(const auto tails, TextsOf(columns.node_id(), count));
  MT_ASSIGN_OR_RETURN(const auto hosts, TextsOf(columns.host(), count));
  MT_ASSIGN_OR_RETURN(const auto addresses, TextsOf(columns.address(), count));
  MT_ASSIGN_OR_RETURN(const auto roles, TextsOf(columns.role(), count));
  int64_t first_rank = 0;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (columns.shared(i) > hosts[at].size()) return Unreadable("a node id shares more than the host has");
    const std::string node_id = hosts[at].substr(0, columns.shared(i)) + tails[at];
    for (const std::string* text : {&node_id, &hosts[at], &addresses[at], &roles[at]})
      if (codec::Utf8(*text) != *text) return Unreadable("a text is not valid UTF-8");
    wire::Member* member = assignment->add_members();
    member->set_node_id(node_id);
    member->set_host(hosts[at]);
    member->set_address(addresses[at]);
    member->set_role(roles[at]);
    member->set_node_rank(i);
    member->set_first_rank(static_cast<int32_t>(first_rank));
    member->set_workers(columns.workers(i));
    member->set_presence_port(columns.presence_port(i));
    member->set_presence_id(columns.presence_id(i));
    member->set_service_port(columns.service_port(i));
    first_rank += columns.workers(i);
  }
  return absl::OkStatus();
}

}  // namespace

void PackMembers(wire::Assignment* assignment) {
  if (assignment->members_size() < kFewestPacked || !RanksFollow(*assignment)) return;
  const std::string plain = ToColumns(*assignment).SerializeAsString();
  uLongf size = compressBound(plain.size());
  std::string deflated(size, '\0');
  // The ids in it are random: more effort would make it only 3 % smaller.
  const int done = compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
                             reinterpret_cast<const Bytef*>(plain.data()), plain.size(), Z_BEST_SPEED);
  MT_CHECK(done == Z_OK) << done;
  deflated.resize(size);
  assignment->clear_members();
  assignment->mutable_packed()->set_bytes(static_cast<uint32_t>(plain.size()));
  assignment->mutable_packed()->set_deflated(std::move(deflated));
}

absl::Status UnpackMembers(wire::Assignment* assignment) {
  if (!assignment->has_packed()) return absl::OkStatus();
  if (assignment->members_size() > 0) return Unreadable("there are members beside it");
  const wire::PackedMembers& packed = assignment->packed();
  if (packed.bytes() > uint32_t{kMaxMessageBytes}) return Unreadable("it is too large");
  std::string plain(packed.bytes(), '\0');
  uLongf size = plain.size();
  const int done =
      uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(packed.deflated().data()), packed.deflated().size());
  if (done != Z_OK || size != plain.size()) return Unreadable("it does not unpack");
  wire::MemberColumns columns;
  if (!columns.ParseFromString(plain)) return Unreadable("it has no columns");
  MT_RETURN_IF_ERROR(FromColumns(columns, assignment));
  assignment->clear_packed();
  return absl::OkStatus();
}

}  // namespace mtrun::rendezvous
