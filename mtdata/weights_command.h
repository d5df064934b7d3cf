// mtdata weights: fetches published weights because they were asked for by name.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

datasets::Command WeightsCommand();

}  // namespace mtrun::mtdata
