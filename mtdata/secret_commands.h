// `mtdata key` and `mtdata bearer`: print what clients without the token need for mtdata serve.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

/// Prints the key that permits reading, for MTRUN_DATA_KEY.
datasets::Command KeyCommand();
/// Prints the bearer token for /metrics.
datasets::Command BearerCommand();

}  // namespace mtrun::mtdata
