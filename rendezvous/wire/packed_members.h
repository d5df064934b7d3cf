// Packs a membership into few bytes: its members by columns, deflated. Every agent gets one with a row for
// each member, so the bytes sent by a service grow with the square of their number. Pure; any thread.
#pragma once

#include "absl/status/status.h"

namespace mtrun::rendezvous {

namespace wire {
class Assignment;
}  // namespace wire

/// Memberships with fewer members are not packed.
inline constexpr int kFewestPacked = 4;

/// Replaces the members by packed ones, unless they are few or their ranks are not contiguous.
void PackMembers(wire::Assignment* assignment);
/// Reverses PackMembers. Returns kInvalidArgument if the input, which comes from outside, cannot be read. The
/// caller must still validate the members, as for unpacked ones.
absl::Status UnpackMembers(wire::Assignment* assignment);

}  // namespace mtrun::rendezvous
