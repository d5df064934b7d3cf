#include "trainers/program/program_help.h"

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

HelpPage HelpOf(const Program& program) {
  const std::string& name = program.name;
  const std::string more = program.example.empty() ? "" : " " + program.example;
  const std::string use =
      program.usage.empty() ? name + " --predict FILE|FOLDER... --out FILE --weights_of RUN" : program.usage;
  return {
      .purpose = program.summary,
      .usage = {absl::StrCat("mtrun [mtrun's flags] --trainer ", name, " --data FOLDER [flags]"),
                name + " --data FOLDER [flags]", name + " --evaluate RUN --data FOLDER", use,
                name + " --export FOLDER --weights_of RUN"},
      .examples = {{"two workers on this machine", absl::StrCat("mtrun --nproc_per_node 2 --trainer ", name,
                                                                " --data data/fashion-mnist", more)},
                   {"that run on the test images",
                    absl::StrCat(name, " --evaluate runs/", name, " --data data/fashion-mnist")},
                   {"its weights and network for PyTorch",
                    absl::StrCat(name, " --export exported-", name, " --weights_of runs/", name)}},
      .notes = absl::StrCat("A flag can also be set in the section ", name, " of --config.\n")};
}

}  // namespace mtrun::trainers
