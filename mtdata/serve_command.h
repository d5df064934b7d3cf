// mtdata serve: a server of packed sets.
#pragma once

#include "datasets/commands.h"

namespace mtrun::mtdata {

datasets::Command ServeCommand();

}  // namespace mtrun::mtdata
