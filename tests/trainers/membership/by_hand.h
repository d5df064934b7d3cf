// The environment of a manually started worker.
#pragma once

#include <string>

#include "trainers/membership/assignment.h"

namespace mtrun::trainers {

inline const EnvironmentMap kByHand = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

inline EnvironmentMap With(EnvironmentMap environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

}  // namespace mtrun::trainers
