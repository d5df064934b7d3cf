// All training programs are one executable, which is started through links: the name says which one it is.
// Where there can be no links (a Python wheel) the first argument does: trainer cnnA --data ...
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::trainers {

struct Program;

struct Trainer {
  std::string_view name;  // of the link
  Program (*describe)();
};

/// The one that `command`, as argv[0] has it, ends with. kNotFound lists the names that there are.
absl::StatusOr<Trainer> FindTrainer(absl::Span<const Trainer> trainers, std::string_view command);

/// Runs the program that argv[0] names, else argv[1]; its exit status, 2 where there is none.
int RunTrainer(int argc, char** argv, absl::Span<const Trainer> trainers);

}  // namespace mtrun::trainers
