// What --help of a training program shows above its flags.
#pragma once

#include "base/help_page.h"
#include "trainers/program/program.h"

namespace mtrun::trainers {

HelpPage HelpOf(const Program& program);

}  // namespace mtrun::trainers
