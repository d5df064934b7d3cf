// The Python interpreters and other things that tools/setup installs for tests.
#pragma once

#include <string>

namespace mtrun::support {

/// Returns the path of an executable or a folder that tools/setup has put into the cache folder; "" if there is
/// none.
std::string CachedFile(const std::string& name);
/// Returns the interpreter of --peers, which has PyTorch, NumPy and safetensors: $MT_PEERS_PYTHON, else the
/// interpreter in the cache folder; "" if neither can be executed.
std::string PeersPython();
/// Likewise for --test-tools, which has moto ($MT_MOTO_PYTHON).
std::string MotoPython();

}  // namespace mtrun::support
