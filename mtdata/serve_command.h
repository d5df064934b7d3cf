// mtdata serve: a server of packed sets.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

datasets::Command ServeCommand();

}  // namespace mtrun::mtdata
