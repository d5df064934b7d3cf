// A membership in few bytes: its members by columns, deflated. Every agent is sent one, and each of its
// members is a line of it: what a service sends grows with their square. Pure; any thread.
#pragma once

#include "absl/status/status.h"

namespace mtrun::rendezvous {

namespace wire {
class Assignment;
}  // namespace wire

/// Fewer than so many stay as they are.
inline constexpr int kFewestPacked = 4;

/// Replaces the members by packed ones, unless they are few or their ranks do not follow one another.
void PackMembers(wire::Assignment* assignment);
/// Undoes it. What comes from outside may be anything: kInvalidArgument where it cannot be read. The members
/// have yet to be validated, as those that came plain.
absl::Status UnpackMembers(wire::Assignment* assignment);

}  // namespace mtrun::rendezvous
