// Resource use of a node's workers, from /proc. Blocking: for a thread that may wait.
#pragma once

#include <string>

#include "rendezvous/wire/node_use.h"

namespace mtrun::launcher {

/// Sets the machine's part of `use`, and processor time and memory of each worker in it, by pid and including
/// all descendants. Values that `root`/proc (`root` is "" outside tests) does not show are unchanged.
void ReadUse(const std::string& root, rendezvous::NodeUse* use);

}  // namespace mtrun::launcher
