// The Python interpreters that tools/setup installs for tests.
#pragma once

#include <string>

namespace mtrun::support {

/// Returns the interpreter of --peers, which has PyTorch, NumPy and safetensors: $MT_PEERS_PYTHON, else the
/// interpreter in the cache folder; "" if neither can be executed.
std::string PeersPython();
/// Likewise for --test-tools, which has moto ($MT_MOTO_PYTHON).
std::string MotoPython();

}  // namespace mtrun::support
