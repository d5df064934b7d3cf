// mtdata bearer: what a scraper shows to read the metrics of a server of sets.
#pragma once

#include "datasets/commands.h"

namespace mtrun::mtdata {

datasets::Command BearerCommand();

}  // namespace mtrun::mtdata
