// The page about a run that has just ended, made by the program mtreport, which links what the trainers do
// not.
#pragma once

#include <string>

#include "base/clock.h"

namespace mtrun::trainers {

/// Starts the mtreport that lies where this program's own installation has it, and waits for it, `patience`
/// at most. What goes wrong is logged: the run is complete without a page.
void MakeReport(const std::string& model_folder, Duration patience);

/// "" where there is none.
std::string FindMtreport(const std::string& executable_folder);

}  // namespace mtrun::trainers
