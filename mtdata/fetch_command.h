// mtdata fetch: copies a set into this machine's cache; with --node it is the node's shared fetcher.
#pragma once

#include "mtdata/commands.h"

namespace mtrun::mtdata {

datasets::Command FetchCommand();

}  // namespace mtrun::mtdata
