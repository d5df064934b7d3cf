// Runs several ranks as threads of the test's process, over the real CPU group.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers::testing {

/// Returns a bootstrap for threads of this process, an in-memory key-value store. Thread-safe.
std::shared_ptr<collectives::Bootstrap> MakeThreadBootstrap();

/// Runs `body(rank, group)` for ranks 0..world-1 concurrently and returns when all have returned; `group` is
/// null in a world of one. Fails the test if the group cannot be connected.
void RunRanks(int world, const std::function<void(int, const collectives::ProcessGroup&)>& body);

/// Likewise, with devices as well. If peers fail while a rank connects, its `body` gets the status.
void RunRanksWithDevices(
    int world, const collectives::DeviceMaker& devices,
    const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body);

/// Likewise; devices[rank] is null for ranks that have none.
void RunMixedRanks(const std::vector<collectives::DeviceMaker>& devices,
                   const std::function<void(int, const absl::StatusOr<collectives::ProcessGroup>&)>& body);

/// Waits until this member has reported for several checks of its device that it waits for others. Returns
/// false if it does not within half a minute.
bool AwaitWaiting(const collectives::ProcessGroup& group);
/// Waits until this member no longer reports that it waits, at the latest after the next check.
bool AwaitNoWaiting(const collectives::ProcessGroup& group);

}  // namespace mtrun::trainers::testing
