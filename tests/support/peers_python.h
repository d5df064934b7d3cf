// The Pythons that tools/setup makes for tests.
#pragma once

#include <string>

namespace mtrun::support {

/// That of --peers, which has PyTorch, NumPy and safetensors: what MT_PEERS_PYTHON names, else the
/// interpreter in the cache folder; "" where neither can be executed.
std::string PeersPython();
/// That of --test-tools which has moto, likewise (MT_MOTO_PYTHON).
std::string MotoPython();

}  // namespace mtrun::support
