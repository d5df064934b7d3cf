// `mtdata key`: prints what a client without the token needs to read from mtdata serve.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

datasets::Command KeyCommand();

}  // namespace mtrun::mtdata
