// Examines for mtrun --doctor what mtrun would start: runs the interpreter and one trainer for their
// versions.
#pragma once

#include <string>

#include "base/worker_env.h"
#include "launcher/doctor/program_findings.h"

namespace mtrun::launcher {

/// `executable_folder`: mtrun's own.
ProgramFacts LookAtPrograms(const EnvironmentMap& environment, const std::string& executable_folder);

}  // namespace mtrun::launcher
