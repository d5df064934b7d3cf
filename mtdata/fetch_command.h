// mtdata fetch: brings a set into this machine's cache; with --node it is the fetcher that does so for all.
#pragma once

#include "datasets/commands.h"

namespace mtrun::mtdata {

datasets::Command FetchCommand();

}  // namespace mtrun::mtdata
