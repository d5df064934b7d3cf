#include "rendezvous/wire/events.h"

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {

PresenceProbe ProbeOf(const Member& member) {
  return {ToText(Endpoint{member.address, member.presence_port}), member.presence_id};
}

Generation GenerationOf(const AgentEvent& event) {
  return std::visit(
      [](const auto& e) {
        if constexpr (requires { e.generation; }) return e.generation;
        return Generation{};
      },
      event);
}

std::string Describe(const Event& event) {
  return std::visit(
      Overloaded{
          [&](const StreamOpened& e) {
            return absl::StrCat(event.node_id, " opens its stream",
                                e.seen.number > 0 ? absl::StrCat(", has seen ", Describe(e.seen)) : "");
          },
          [&](const StreamClosed&) { return absl::StrCat(event.node_id, " closes its stream"); },
          [&](const Heartbeat&) { return absl::StrCat(event.node_id, " heartbeat"); },
          [&](const AgentSaid& e) { return absl::StrCat(event.node_id, " says ", Describe(e.event)); },
          [&](const Tick&) { return std::string("tick"); },
          [&](const ProbeResult&) { return std::string("probe result"); },
          [&](const ControlAsked& e) { return rendezvous::Describe(e.call); },
      },
      event.what);
}

std::string Describe(const Effect& effect) {
  return std::visit(Overloaded{
                        [](const Send& e) { return absl::StrCat("-> ", e.node_id, ": ", Describe(e.event)); },
                        [](const CloseSession& e) { return absl::StrCat("close ", e.node_id); },
                        [](const LogLine& e) { return absl::StrCat("log: ", e.text); },
                    },
                    effect);
}

}  // namespace mtrun::rendezvous
