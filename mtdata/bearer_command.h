// mtdata bearer: prints the credential that a scraper sends to read a set server's metrics.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

datasets::Command BearerCommand();

}  // namespace mtrun::mtdata
