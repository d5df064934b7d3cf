// The level of a program's log, from the environment.
#pragma once

#include <string_view>

namespace mtrun::log {

/// Calls SetUp with the level that the variable LOGLEVEL names, kInfo if it is not set. Warns of an unknown
/// one.
void SetUpFromEnvironment(std::string_view program);

}  // namespace mtrun::log
