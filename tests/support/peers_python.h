// The Python of tools/setup --peers, which has PyTorch, NumPy and safetensors.
#pragma once

#include <string>

namespace mtrun::support {

/// What MT_PEERS_PYTHON names, else the interpreter in the cache folder; "" where neither can be executed.
std::string PeersPython();

}  // namespace mtrun::support
