#include "rendezvous/control_call.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

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

std::string Describe(const Requester& by) {
  const bool known = !by.user.empty() || !by.host.empty();
  std::string text = known ? absl::StrCat(by.user, "@", by.host) : "an operator";
  std::string more = by.pid > 0 ? absl::StrCat("pid ", by.pid) : "";
  if (!by.address.empty()) absl::StrAppend(&more, more.empty() ? "" : ", ", "from ", by.address);
  if (!more.empty()) absl::StrAppend(&text, " (", more, ")");
  return text;
}

std::string Describe(const ControlCall& call) {
  const std::string by = absl::StrCat(" by ", Describe(call.by));
  if (call.call == ControlCall::kDrain) return absl::StrCat(call.node, " is asked to leave", by);
  if (call.call == ControlCall::kEvict && call.age > Duration::zero())
    return absl::StrCat(call.node, " was evicted ", HumanDuration(call.age), " ago", by);
  if (call.call == ControlCall::kEvict) return absl::StrCat(call.node, " is evicted", by);
  if (call.call == ControlCall::kStop)
    return absl::StrCat("the job is stopped", by,
                        call.checkpoint ? ": all nodes leave after a step, and trainers save" : "");
  if (call.call == ControlCall::kStacks) return absl::StrCat("stacks of all workers are asked for", by);
  return absl::StrCat("\"", call.call, "\" is asked for", by);
}

}  // namespace mtrun::rendezvous
