#include "launcher/doctor/program_findings.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::launcher {

Finding JudgePython(const PythonFacts& python) {
  constexpr char kSubject[] = "Python";
  constexpr char kOther[] = "set PYTHON_EXEC to the interpreter of your programs; trainers need none";
  if (!python.error.empty()) return {Health::kWarn, kSubject, python.error, kOther};
  std::string found = absl::StrCat(python.file, " is ", python.version, ", ",
                                   python.torch.empty() ? "without PyTorch" : "with PyTorch " + python.torch);
  if (python.torch.empty()) absl::StrAppend(&found, ", which mtrun's own trainers do not need");
  if (!python.note.empty()) return {Health::kWarn, kSubject, absl::StrCat(found, "; ", python.note)};
  return {Health::kOk, kSubject, found};
}

Finding JudgeTrainers(const TrainerFacts& trainers) {
  constexpr char kSubject[] = "trainers";
  const std::string names = absl::StrJoin(trainers.names, ", ");
  if (trainers.names.empty()) {
    return {Health::kWarn, kSubject, absl::StrCat("none in ", absl::StrJoin(trainers.folders, ", ")),
            "build mtrun with LibTorch (tools/setup fetches it) or install its wheel; programs without "
            "--trainer need none"};
  }
  if (!trainers.error.empty())
    return {Health::kFail, kSubject,
            absl::StrCat(names, ", but ", trainers.asked, " does not start: ", trainers.error),
            "install the libraries that it names, or mtrun and its trainers again"};
  return {Health::kOk, kSubject,
          trainers.version.empty() ? names : absl::StrCat(names, "; ", trainers.version)};
}

Findings JudgePrograms(const ProgramFacts& programs) {
  return {JudgePython(programs.python), JudgeTrainers(programs.trainers)};
}

}  // namespace mtrun::launcher
