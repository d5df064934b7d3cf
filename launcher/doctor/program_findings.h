// Findings of mtrun --doctor about what it starts: Python programs and trainers. Facts in, findings out;
// pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/finding.h"

namespace mtrun::launcher {

struct PythonFacts {
  std::string file = {};     // the interpreter of a script here; "" if there is none
  std::string version = {};  // "3.11.2"; "" if it could not be asked
  std::string torch = {};    // version of PyTorch, "" for none
  std::string error = {};    // why there is no interpreter, or why it does not answer
  std::string note = {};     // if another interpreter could be expected
};
struct TrainerFacts {
  std::vector<std::string> names = {};    // of all trainers here
  std::vector<std::string> folders = {};  // where they are looked for
  std::string asked = {};                 // one that comes with mtrun, "" for none
  std::string version = {};               // its answer, "cnnA 0.2.0 (commit 1a2b3c4d, LibTorch 2.11.0)"
  std::string error = {};                 // why it does not answer
};
struct ProgramFacts {
  PythonFacts python;
  TrainerFacts trainers;
};

Finding JudgePython(const PythonFacts& python);
Finding JudgeTrainers(const TrainerFacts& trainers);
Findings JudgePrograms(const ProgramFacts& programs);

}  // namespace mtrun::launcher
