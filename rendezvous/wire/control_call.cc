#include "rendezvous/wire/control_call.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {
namespace {

std::string Printable(const std::string& text) {
  std::string clean = text.substr(0, kMaxName);
  for (char& c : clean) c = absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?';
  return clean;
}

}  // namespace

Requester Cleaned(const Requester& told, const std::string& address) {
  return {Printable(told.user), Printable(told.host), std::max<int64_t>(told.pid, 0), Printable(address)};
}

std::string Brief(const Requester& by) {
  const bool known = !by.user.empty() || !by.host.empty();
  return known ? absl::StrCat(by.user, "@", by.host) : "an operator";
}

std::string Describe(const Requester& by) {
  std::string text = Brief(by);
  std::string more = by.pid > 0 ? absl::StrCat("pid ", by.pid) : "";
  if (!by.address.empty()) absl::StrAppend(&more, more.empty() ? "" : ", ", "from ", by.address);
  if (!more.empty()) absl::StrAppend(&text, " (", more, ")");
  return text;
}

const char* NameOf(const ControlKind& what) {
  static constexpr const char* kNames[] = {"unknown", "drain", "evict", "stop", "stacks"};
  return kNames[what.index()];
}

ControlKind Filled(ControlKind what, const std::string& node, bool checkpoint) {
  const auto fill = [&](auto& call) {
    if constexpr (requires { call.node; }) call.node = node;
    if constexpr (requires { call.checkpoint; }) call.checkpoint = checkpoint;
  };
  std::visit(fill, what);
  return what;
}

std::string Describe(const ControlCall& call) {
  const std::string by = absl::StrCat(" by ", Describe(call.by));
  return std::visit(
      Overloaded{
          [&](const std::monostate&) {
            return absl::StrCat("something that this version of mtrun does not know is asked for", by);
          },
          [&](const DrainCall& e) { return absl::StrCat(e.node, " is asked to leave", by); },
          [&](const EvictCall& e) {
            if (e.age == Duration::zero()) return absl::StrCat(e.node, " is evicted", by);
            return absl::StrCat(e.node, " was evicted ", HumanDuration(e.age), " ago", by);
          },
          [&](const StopCall& e) {
            return absl::StrCat("the job is stopped", by,
                                e.checkpoint ? ": all nodes leave after a step, and trainers save" : "");
          },
          [&](const StacksCall&) { return absl::StrCat("stacks of all workers are asked for", by); },
      },
      call.what);
}

}  // namespace mtrun::rendezvous
