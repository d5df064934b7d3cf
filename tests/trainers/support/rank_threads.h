// Several ranks as threads of the test's process, over the real CPU group.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers::testing {

/// Where threads of this process meet: a key-value space in memory. Thread-safe.
std::shared_ptr<collectives::Bootstrap> MakeThreadBootstrap();

/// Runs `body(rank, group)` for ranks 0..world-1 at the same time; `group` is null in a world of one. Fails
/// the test when the group cannot be connected. Returns when all have returned.
void RunRanks(int world, const std::function<void(int, const collectives::ProcessGroup&)>& body);

/// The same with devices beside the CPU group. A rank whose peers fail while it connects gets what came of
/// it.
void RunRanksWithDevices(
    int world, const collectives::DeviceMaker& devices,
    const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body);

/// The same where devices[rank] is null for ranks that have none.
void RunMixedRanks(const std::vector<collectives::DeviceMaker>& devices,
                   const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body);

/// Until this member says that it waits for others, and has said so for some looks at its device. False: it
/// does not within half a minute.
bool AwaitWaiting(const collectives::ProcessGroup& group);
/// Until this member does not say so, at the latest from the next look on.
bool AwaitNoWaiting(const collectives::ProcessGroup& group);

}  // namespace mtrun::trainers::testing
